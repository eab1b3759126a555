import { nullTranslator } from '@jupyterlab/translation';
import { fireEvent, render, screen, within } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import { Advice } from '../../../src/views/advice';
import { Clusters } from '../../../src/views/clusters';
import { Runs } from '../../../src/views/runs';
import { clusterInfo, runInfo } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

function clustersProps(): React.ComponentProps<typeof Clusters> {
  return {
    clusters: [],
    templates: [],
    ready: true,
    hasExample: true,
    actions: { connect: vi.fn(), scale: vi.fn(), stop: vi.fn(), menu: vi.fn(), drag: vi.fn() },
    trans,
    onNew: vi.fn(),
    onRefresh: vi.fn(),
    onStartTwo: vi.fn(),
    onExample: vi.fn(),
    onStartTemplate: vi.fn(),
    onTemplateMenu: vi.fn()
  };
}

describe('Clusters', () => {
  it('says what to do when there are none', () => {
    const props = clustersProps();
    const { rerender } = render(<Clusters {...props} />);
    fireEvent.click(screen.getByRole('button', { name: 'Start two local workers' }));
    expect(props.onStartTwo).toHaveBeenCalledOnce();
    fireEvent.click(screen.getByRole('button', { name: 'Open the example' }));
    expect(props.onExample).toHaveBeenCalledOnce();
    rerender(<Clusters {...props} hasExample={false} />);
    expect(screen.queryByRole('button', { name: 'Open the example' })).toBeNull();
  });

  it('shows state, jobs, load and actions of each, all of them named', () => {
    const props = clustersProps();
    render(<Clusters {...props} clusters={[clusterInfo('digits', { notes: ['2 tasks share 1 core'] })]} />);
    const row = within(screen.getByRole('listitem', { name: 'Cluster digits' }));
    expect(row.getByRole('img', { name: 'running' })).toBeTruthy();
    expect(row.getByText('local · 2 worker')).toBeTruthy();
    expect(row.getByRole('progressbar', { name: '50 % of 4 cores in use' }).getAttribute('aria-valuenow')).toBe('50');
    expect(row.getByText('1.2 / 4.0 GiB')).toBeTruthy();
    expect(row.getByText('2 tasks share 1 core')).toBeTruthy();
    fireEvent.click(row.getByRole('button', { name: 'Connect the notebook to digits' }));
    fireEvent.click(row.getByRole('button', { name: 'Scale digits' }));
    fireEvent.click(row.getByRole('button', { name: 'Stop digits' }));
    fireEvent.click(row.getByRole('button', { name: 'More about digits' }));
    expect(props.actions.connect).toHaveBeenCalledWith('digits');
    expect(props.actions.scale).toHaveBeenCalledWith('digits');
    expect(props.actions.stop).toHaveBeenCalledWith('digits');
    expect(props.actions.menu).toHaveBeenCalledOnce();
  });

  it('has bars for GPUs where there are any', () => {
    const gpu = {
      id: 'GPU-1',
      index: 1,
      name: 'H200',
      memory_bytes: 2 ** 37,
      memory_used_bytes: 2 ** 36,
      utilization: 0.9
    };
    const cluster = clusterInfo('gpus');
    cluster.hosts[0]!.gpus = [gpu];
    render(<Clusters {...clustersProps()} clusters={[cluster]} />);
    expect(screen.getByRole('progressbar', { name: 'GPU 1, H200' }).getAttribute('aria-valuenow')).toBe('90');
  });

  it('starts a template with one click', () => {
    const props = clustersProps();
    render(<Clusters {...props} templates={[{ name: 'big', request: { kind: 'local' } }]} />);
    fireEvent.click(screen.getByRole('button', { name: 'Start big' }));
    expect(props.onStartTemplate).toHaveBeenCalledWith('big');
  });

  it('begins a drag when the row is pulled, not when it is pressed', () => {
    const props = clustersProps();
    render(<Clusters {...props} clusters={[clusterInfo('digits')]} />);
    const row = screen.getByRole('listitem', { name: 'Cluster digits' });
    const at = (type: string, clientX: number) => new MouseEvent(type, { bubbles: true, button: 0, clientX });
    fireEvent(row, at('pointerdown', 10));
    fireEvent(document, at('pointermove', 12));
    expect(props.actions.drag).not.toHaveBeenCalled();
    fireEvent(document, at('pointermove', 30));
    expect(props.actions.drag).toHaveBeenCalledOnce();
  });
});

describe('Runs', () => {
  const props = () => ({ ready: true, trans, onOpen: vi.fn(), onStop: vi.fn(), onMenu: vi.fn() });

  it('opens, stops and explains runs', () => {
    const callbacks = props();
    const failed = runInfo('b', { state: 'failed', message: 'ps:0 died (SIGKILL)', ended: 1005, latest: {} });
    render(<Runs runs={[runInfo('a'), failed]} {...callbacks} />);
    expect(screen.getByText('58 %')).toBeTruthy();
    expect(screen.getByText('0.031')).toBeTruthy();
    expect(screen.getByText('ps:0 died (SIGKILL)')).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Open the dashboard of name-a, running' }));
    expect(callbacks.onOpen).toHaveBeenCalledWith('a');
    fireEvent.click(screen.getByRole('button', { name: 'Stop name-a' }));
    expect(callbacks.onStop).toHaveBeenCalledWith('a');
    expect(screen.queryByRole('button', { name: 'Stop name-b' })).toBeNull();
  });

  it('shows a failure as a terminal would, all of it in its tooltip', () => {
    const message = '\u001b[31mValueError\u001b[0m: no\r\n  File "a.py"';
    render(<Runs runs={[runInfo('a', { state: 'failed', message })]} {...props()} />);
    expect(screen.getByTitle(/^ValueError/).title).toBe('ValueError: no\n  File "a.py"');
  });

  it('finds runs by name and folds away', () => {
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
    ['offline', /does not answer/]
  ] as const)('%s', (health, text) => {
    const retry = vi.fn();
    render(<Advice health={health} serverVersion="0.2.0" pageVersion="0.1.0" trans={trans} onRetry={retry} />);
    expect(screen.getByText(text)).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Try again' }));
    expect(retry).toHaveBeenCalledOnce();
  });
});
