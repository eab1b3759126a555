import { nullTranslator } from '@jupyterlab/translation';
import { fireEvent, render, screen, within } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import { Advice } from '../../../src/views/serveradvice';
import { Clusters } from '../../../src/views/clusterlist';
import { Runs } from '../../../src/views/runlist';
import { checkpointInfo, clusterInfo, gpuInfo, runInfo } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

function clustersProps(): React.ComponentProps<typeof Clusters> {
  return {
    clusters: [],
    templates: [],
    ready: true,
    connected: '',
    actions: { connect: vi.fn(), disconnect: vi.fn(), scale: vi.fn(), stop: vi.fn(), menu: vi.fn(), drag: vi.fn() },
    trans,
    onNew: vi.fn(),
    onRefresh: vi.fn(),
    onMore: vi.fn(),
    onStartTwo: vi.fn(),
    onExample: vi.fn(),
    onStartTemplate: vi.fn(),
    onTemplateMenu: vi.fn()
  };
}

describe('Clusters', () => {
  it('shows what to do if there are no clusters', () => {
    const props = clustersProps();
    render(<Clusters {...props} />);
    fireEvent.click(screen.getByRole('button', { name: 'Start two local workers' }));
    expect(props.onStartTwo).toHaveBeenCalledOnce();
    fireEvent.click(screen.getByRole('button', { name: 'Open the example' }));
    expect(props.onExample).toHaveBeenCalledOnce();
    fireEvent.click(screen.getByRole('button', { name: 'More actions' }));
    expect(props.onMore).toHaveBeenCalledOnce();
  });

  it('shows the state, jobs, load and actions of each, all with accessible names', () => {
    const props = clustersProps();
    render(<Clusters {...props} clusters={[clusterInfo('digits', { notes: ['2 tasks share 1 core'] })]} />);
    const row = within(screen.getByRole('listitem', { name: 'Cluster digits' }));
    expect(row.getByRole('img', { name: 'running' })).toBeTruthy();
    expect(row.getByText('local · 2 workers')).toBeTruthy();
    expect(row.getByRole('progressbar', { name: '50% of 4 cores in use' }).getAttribute('aria-valuenow')).toBe('50');
    expect(row.getByText('1.2 / 4.0 GiB')).toBeTruthy();
    expect(row.getByText('2 tasks share 1 core')).toBeTruthy();
    fireEvent.click(row.getByRole('button', { name: 'Connect the notebook to digits' }));
    fireEvent.click(row.getByRole('button', { name: 'Scale digits' }));
    fireEvent.click(row.getByRole('button', { name: 'Stop digits' }));
    fireEvent.click(row.getByRole('button', { name: 'Actions for digits' }));
    expect(props.actions.connect).toHaveBeenCalledWith('digits');
    expect(props.actions.scale).toHaveBeenCalledWith('digits');
    expect(props.actions.stop).toHaveBeenCalledWith('digits');
    expect(props.actions.menu).toHaveBeenCalledOnce();
  });

  it('disconnects the notebook from its cluster, and connects it to others', () => {
    const props = { ...clustersProps(), clusters: [clusterInfo('digits'), clusterInfo('other')], connected: 'digits' };
    render(<Clusters {...props} />);
    fireEvent.click(screen.getByRole('button', { name: 'Disconnect the notebook from digits' }));
    expect(props.actions.disconnect).toHaveBeenCalledOnce();
    fireEvent.click(screen.getByRole('button', { name: 'Connect the notebook to other' }));
    expect(props.actions.connect).toHaveBeenCalledExactlyOnceWith('other');
    expect(screen.queryByRole('button', { name: 'Connect the notebook to digits' })).toBeNull();
  });

  it('opens the menu of a cluster or a template with a right click', () => {
    const props = { ...clustersProps(), templates: [{ name: 'big', request: { kind: 'local' } }] };
    render(<Clusters {...props} clusters={[clusterInfo('digits')]} />);
    for (const [label, menu] of [
      ['Cluster digits', props.actions.menu],
      ['Template big', props.onTemplateMenu]
    ] as const) {
      const row = screen.getByRole('listitem', { name: label });
      expect(fireEvent.contextMenu(row)).toBe(false);
      expect(menu).toHaveBeenCalledExactlyOnceWith(label.split(' ')[1], row);
    }
  });

  it('shows that a cluster does not respond, and its warnings', () => {
    const warning = 'The Dask worker 0 on node-a does not respond. Stopping its runs, or the cluster, kills it';
    const silent = clusterInfo('digits', { silent_s: 12.3, warnings: [warning] });
    const { rerender } = render(<Clusters {...clustersProps()} clusters={[silent]} />);
    expect(screen.getByText('digits has not responded for 12 s. It is busy or frozen; Stop ends it.')).toBeTruthy();
    expect(screen.getByText(warning)).toBeTruthy();
    rerender(<Clusters {...clustersProps()} clusters={[clusterInfo('digits')]} />);
    expect(screen.queryByText(/has not responded/)).toBeNull();
  });

  it('offers only the possible actions for a cluster of another version', () => {
    const incompatible = 'It speaks protocol 9: stop it with `jupyter dtf stop digits`';
    render(<Clusters {...clustersProps()} clusters={[clusterInfo('digits', { incompatible, hosts: [] })]} />);
    const row = within(screen.getByRole('listitem', { name: 'Cluster digits' }));
    expect(row.getByText('local · another version')).toBeTruthy();
    expect(row.getByText('jupyter dtf stop digits').tagName).toBe('CODE');
    expect(row.getAllByRole('button').map(button => button.getAttribute('aria-label'))).toEqual([
      'Stop digits',
      'Actions for digits'
    ]);
  });

  it('lets a cluster that is stopping be stopped again only if it does not respond', () => {
    const { rerender } = render(
      <Clusters {...clustersProps()} clusters={[clusterInfo('digits', { state: 'stopping' })]} />
    );
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Stop digits' }).disabled).toBe(true);
    const silent = clusterInfo('digits', { state: 'stopping', silent_s: 7 });
    rerender(<Clusters {...clustersProps()} clusters={[silent]} />);
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Stop digits' }).disabled).toBe(false);
  });

  it('shows a lost cluster until it is dismissed', () => {
    const props = clustersProps();
    const message = 'The cluster digits was killed (SIGKILL). Its runs are lost';
    render(<Clusters {...props} clusters={[clusterInfo('digits', { state: 'lost', message, hosts: [] })]} />);
    expect(screen.getByText(message)).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Dismiss digits' }));
    expect(props.actions.stop).toHaveBeenCalledWith('digits');
  });

  it('shows the progress of each host while some are starting', () => {
    const coming = [
      { name: 'bert', step: 'starting Python', problem: '' },
      { name: 'cleo', step: 'waiting', problem: 'cleo did not respond' }
    ];
    const cluster = clusterInfo('digits', { coming, warnings: ['Host cleo cannot be used: cleo did not respond'] });
    const { rerender } = render(<Clusters {...clustersProps()} clusters={[cluster]} />);
    const steps = within(screen.getByRole('list', { name: 'Hosts starting' })).getAllByRole('listitem');
    expect(steps.map(step => step.textContent)).toEqual(['0: ready', 'bert: starting Python']);
    expect(screen.getByText('Host cleo cannot be used: cleo did not respond')).toBeTruthy();
    rerender(<Clusters {...clustersProps()} clusters={[{ ...cluster, coming: coming.slice(1) }]} />);
    expect(screen.queryByRole('list', { name: 'Hosts starting' })).toBeNull();
  });

  it('has bars for GPUs if there are any', () => {
    const gpu = gpuInfo({
      index: 1,
      name: 'H200',
      memory_bytes: 2 ** 37,
      memory_used_bytes: 2 ** 36,
      utilization: 0.9
    });
    const cluster = clusterInfo('gpus');
    cluster.hosts[0]!.gpus = [gpu, { ...gpu, index: 2, power_watts: 311.6, temperature_celsius: 64 }];
    render(<Clusters {...clustersProps()} clusters={[cluster]} />);
    expect(screen.getByRole('progressbar', { name: 'GPU 1, H200' }).getAttribute('aria-valuenow')).toBe('90');
    expect(screen.getByRole('progressbar', { name: 'GPU 2, H200, 312 W, 64 °C' })).toBeTruthy();
  });

  it('starts a template with one click', () => {
    const props = clustersProps();
    render(<Clusters {...props} templates={[{ name: 'big', request: { kind: 'local' } }]} />);
    fireEvent.click(screen.getByRole('button', { name: 'Start big' }));
    expect(props.onStartTemplate).toHaveBeenCalledWith('big');
  });

  it('starts a drag when the pointer moves, not when it is pressed', () => {
    const props = clustersProps();
    render(<Clusters {...props} clusters={[clusterInfo('digits')]} />);
    const row = screen.getByRole('listitem', { name: 'Cluster digits' });
    const at = (type: string, clientX: number) => new MouseEvent(type, { bubbles: true, button: 0, clientX });
    fireEvent(row, at('pointerdown', 10));
    fireEvent(document, at('pointermove', 12));
    expect(props.actions.drag).not.toHaveBeenCalled();
    fireEvent(document, at('pointermove', 30));
    expect(props.actions.drag).toHaveBeenCalledOnce();
    fireEvent(document, at('pointermove', 50));
    expect(props.actions.drag).toHaveBeenCalledOnce();
  });

  it.each(['pointerup', 'pointercancel'])('does not start a drag after %s', end => {
    const props = clustersProps();
    render(<Clusters {...props} clusters={[clusterInfo('digits')]} />);
    const at = (type: string, clientX: number) => new MouseEvent(type, { bubbles: true, button: 0, clientX });
    fireEvent(screen.getByRole('listitem', { name: 'Cluster digits' }), at('pointerdown', 10));
    fireEvent(document, at(end, 10));
    fireEvent(document, at('pointermove', 30));
    expect(props.actions.drag).not.toHaveBeenCalled();
  });
});

describe('Runs', () => {
  const props = () => ({
    ready: true,
    trans,
    onOpen: vi.fn(),
    onStop: vi.fn(),
    onContinue: vi.fn(),
    onResume: vi.fn(),
    onMenu: vi.fn()
  });

  it('opens and stops runs, and shows why they failed', () => {
    const callbacks = props();
    const failed = runInfo('b', { state: 'failed', message: 'ps:0 died (SIGKILL)', ended: 1005, headline: {} });
    render(<Runs runs={[runInfo('a'), failed]} {...callbacks} />);
    expect(screen.getByText(/^58% · 2 workers · /)).toBeTruthy();
    expect(screen.getByText(/0\.031/)).toBeTruthy();
    expect(screen.getByText('ps:0 died (SIGKILL)')).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Open the dashboard of name-a, running' }));
    expect(callbacks.onOpen).toHaveBeenCalledWith('a');
    fireEvent.click(screen.getByRole('button', { name: 'Stop name-a' }));
    expect(callbacks.onStop).toHaveBeenCalledWith('a');
    expect(screen.queryByRole('button', { name: 'Stop name-b' })).toBeNull();
  });

  it('continues a paused run', () => {
    const callbacks = props();
    render(<Runs runs={[runInfo('a', { state: 'paused', message: 'after step 14' }), runInfo('b')]} {...callbacks} />);
    fireEvent.click(screen.getByRole('button', { name: /^Continue/ }));
    expect(callbacks.onContinue).toHaveBeenCalledWith('a');
  });

  it('offers to resume a lost run with a checkpoint', () => {
    const callbacks = props();
    const lost = runInfo('b', {
      state: 'lost',
      message: 'The cluster was killed',
      goes_on: true,
      checkpoint: checkpointInfo(14)
    });
    render(<Runs runs={[runInfo('a'), lost, runInfo('c', { state: 'lost' })]} {...callbacks} />);
    const buttons = screen.getAllByRole('button', { name: /^Resume/ });
    expect(buttons.map(button => button.title)).toEqual(['Resume name-b on…']);
    fireEvent.click(buttons[0]!);
    expect(callbacks.onResume).toHaveBeenCalledWith('b', buttons[0]);
  });

  it('warns of values that are not finite, and shows no machine metric as the value of a run', () => {
    const sentence = 'loss became NaN at step 8 on worker:1';
    const nan = runInfo('a', { state: 'succeeded', headline: { loss: null }, not_finite: { loss: sentence } });
    const idle = runInfo('b', { state: 'failed', message: 'no', latest: { cpu: 0.97 }, headline: {} });
    render(<Runs runs={[nan, idle]} {...props()} />);
    expect(screen.getByText('NaN')).toBeTruthy();
    expect(screen.getByText(sentence)).toBeTruthy();
    expect(screen.queryByText(/0\.97/)).toBeNull();
  });

  it('shows the age of each run, with the full time in a tooltip, and the name of its metric', () => {
    const now = Date.now() / 1000;
    const runs = [
      runInfo('a', { created: now - 130 }),
      runInfo('b', { created: now - 40_000_000, state: 'succeeded' })
    ];
    render(<Runs runs={runs} {...props()} />);
    const recent = screen.getByText('2 min ago');
    expect(recent.title).toContain(String(new Date(1000 * (now - 130)).getFullYear()));
    expect(
      screen.getByText(new Date(1000 * (now - 40_000_000)).getFullYear().toString(), { exact: false })
    ).toBeTruthy();
    expect(screen.getAllByText('loss')).toHaveLength(2);
  });

  it('expands when its search is opened', () => {
    render(<Runs runs={[]} {...props()} />);
    const title = screen.getByRole('button', { name: 'Runs' });
    fireEvent.click(title);
    fireEvent.click(screen.getByRole('button', { name: 'Find a run' }));
    expect(title.getAttribute('aria-expanded')).toBe('true');
    expect(screen.getByRole('searchbox')).toBeTruthy();
  });

  it('shows a failure as in a terminal, with the whole text in its tooltip', () => {
    const message = '\u001b[31mValueError\u001b[0m: no\r\n  File "a.py"';
    render(<Runs runs={[runInfo('a', { state: 'failed', message })]} {...props()} />);
    expect(screen.getByTitle(/^ValueError/).title).toBe('ValueError: no\n  File "a.py"');
  });

  it('finds runs by name, and can be collapsed', () => {
    render(<Runs runs={[runInfo('a'), runInfo('b')]} {...props()} />);
    fireEvent.click(screen.getByRole('button', { name: 'Find a run' }));
    fireEvent.change(screen.getByRole('searchbox'), { target: { value: 'name-b' } });
    expect(screen.queryByText('name-a')).toBeNull();
    const title = screen.getByRole('button', { name: 'Runs' });
    expect(title.getAttribute('aria-expanded')).toBe('true');
    fireEvent.click(title);
    expect(title.getAttribute('aria-expanded')).toBe('false');
  });
});

describe('Advice', () => {
  it.each([
    ['missing', 'jupyter server extension enable jupyter_dtf'],
    ['stale', /0\.2\.0.*0\.1\.0/],
    ['foreign', /0\.2\.0\) speaks protocol 2–3, but this page .*0\.1\.0\) speaks 1: .*\. Reload the page/],
    ['offline', /does not respond/],
    ['blocked', 'ws://host/base/jupyter-dtf/api/events']
  ] as const)('%s', (health, text) => {
    const [retry, reload] = [vi.fn(), vi.fn()];
    render(
      <Advice
        health={health}
        serverVersion="0.2.0"
        serverProtocol={3}
        serverOldest={2}
        pageVersion="0.1.0"
        socketUrl="ws://host/base/jupyter-dtf/api/events"
        trans={trans}
        onRetry={retry}
        onReload={reload}
      />
    );
    expect(screen.getByText(text)).toBeTruthy();
    const [button, done] = health === 'foreign' ? ['Reload the page', reload] : ['Try again', retry];
    fireEvent.click(screen.getByRole('button', { name: button }));
    expect(done).toHaveBeenCalledOnce();
  });
});
