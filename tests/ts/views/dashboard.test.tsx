import { nullTranslator } from '@jupyterlab/translation';
import { fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import type { RunInfo } from '../../../src/api/schema';
import { MachinesModel } from '../../../src/model/machinefigures';
import { visibleRows } from '../../../src/model/visiblerows';
import type { StoryEvent } from '../../../src/model/run';
import { countTroubles, Events } from '../../../src/views/events';
import { Header } from '../../../src/views/dashboardheader';
import { Links } from '../../../src/views/linktable';
import { MachineHistory } from '../../../src/views/machinehistory';
import { Machines } from '../../../src/views/machines';
import { Output } from '../../../src/views/outputlines';
import { sparklinePoints } from '../../../src/views/sparkline';
import { Tabs } from '../../../src/views/tabs';
import { checkpointInfo, clusterInfo, noteEvent, runInfo, taskInfo } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

describe('Header', () => {
  const others = () => ({ onPause: vi.fn(), onContinue: vi.fn(), onResume: vi.fn() });

  it('shows the run and its progress, and can stop it', () => {
    const stop = vi.fn();
    const menu = vi.fn();
    render(<Header run={runInfo('a')} trans={trans} onStop={stop} {...others()} onMenu={menu} />);
    expect(screen.getByRole('heading', { name: 'name-a' })).toBeTruthy();
    expect(screen.getByText('epoch 3/5')).toBeTruthy();
    expect(screen.getByRole('progressbar', { name: '58% done' })).toBeTruthy();
    expect(screen.getByText('digits · 2 workers · allreduce · batch_size 64 · optimizer Adam')).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Stop name-a' }));
    fireEvent.click(screen.getByRole('button', { name: 'Actions for name-a' }));
    expect(stop).toHaveBeenCalledOnce();
    expect(menu).toHaveBeenCalledOnce();
  });

  it('shows the last checkpoint, and stragglers', () => {
    const checkpoint = checkpointInfo(1200, { time: Date.now() / 1000 - 14.2 });
    const slow = { 'worker:1': 'worker:1 takes 3.1 times as long' };
    const { rerender } = render(
      <Header run={runInfo('a', { checkpoint, slow })} trans={trans} onStop={vi.fn()} onMenu={vi.fn()} {...others()} />
    );
    expect(screen.getByText('last checkpoint: step 1200, 14 s ago')).toBeTruthy();
    expect(screen.getByText('worker:1 takes 3.1 times as long')).toBeTruthy();
    const ended = runInfo('a', { checkpoint, state: 'stopped', ended: 1073 });
    rerender(<Header run={ended} trans={trans} onStop={vi.fn()} onMenu={vi.fn()} {...others()} />);
    expect(screen.getByText('last checkpoint: step 1200')).toBeTruthy();
  });

  it('shows how much of the data has been sent, and can stop it', () => {
    const progress = { done: 312 * 2 ** 20, total: 2 ** 30, unit: 'byte', epoch: 0, epochs: 0 };
    const message = 'sending 312 MiB of 1.0 GiB, 890 MiB/s';
    const run = runInfo('a', { state: 'pending', message, progress, started: null });
    render(<Header run={run} trans={trans} onStop={vi.fn()} {...others()} onMenu={vi.fn()} />);
    expect(screen.getByText(message)).toBeTruthy();
    expect(screen.getByRole('progressbar', { name: '30% done' })).toBeTruthy();
    expect(screen.queryByText(/byte/)).toBeNull();
    expect(screen.getByRole('button', { name: 'Stop name-a' })).toBeTruthy();
  });

  it('shows why a run failed, without a button that stops it', () => {
    const run = runInfo('a', { state: 'failed', message: 'worker:1 died (SIGKILL)', ended: 1073 });
    render(<Header run={run} trans={trans} onStop={vi.fn()} {...others()} onMenu={vi.fn()} />);
    expect(screen.getByText('worker:1 died (SIGKILL)')).toBeTruthy();
    expect(screen.getByText('took 1m 12s')).toBeTruthy();
    expect(screen.queryByRole('button', { name: /^Stop/ })).toBeNull();
  });

  it('offers to resume a lost run, and shows which run a run was resumed from', () => {
    const resume = vi.fn();
    const open = vi.fn();
    const lost = runInfo('a', { state: 'lost', message: 'The cluster was killed', ended: 1073, goes_on: true });
    const shown = (run: RunInfo) => (
      <Header
        run={run}
        trans={trans}
        onStop={vi.fn()}
        {...others()}
        onResume={resume}
        source={{ name: 'first', open }}
        onMenu={vi.fn()}
      />
    );
    const { rerender } = render(shown(lost)); // without a checkpoint
    expect(screen.queryByRole('button', { name: /Resume/ })).toBeNull();
    expect(screen.queryByText(/resumed from/)).toBeNull();
    rerender(shown({ ...lost, checkpoint: checkpointInfo(14), resumed_from: 'b' }));
    const button = screen.getByRole('button', { name: 'Resume name-a on…' });
    expect(button.title).toBe('Continue from the checkpoint of step 14');
    fireEvent.click(button);
    expect(resume).toHaveBeenCalledWith(button);
    fireEvent.click(screen.getByRole('button', { name: 'first' }));
    expect(open).toHaveBeenCalledOnce();
    rerender(shown({ ...lost, checkpoint: checkpointInfo(14), state: 'succeeded' }));
    expect(screen.queryByRole('button', { name: /Resume/ })).toBeNull();
  });

  it('pauses runs with checkpoints, and continues paused ones', () => {
    const does = others();
    const shown = (run: RunInfo) => <Header run={run} trans={trans} onStop={vi.fn()} {...does} onMenu={vi.fn()} />;
    const { rerender } = render(shown(runInfo('a'))); // without checkpoints
    expect(screen.queryByRole('button', { name: /^Pause/ })).toBeNull();
    rerender(shown(runInfo('a', { goes_on: true })));
    fireEvent.click(screen.getByRole('button', { name: 'Pause name-a' }));
    expect(does.onPause).toHaveBeenCalledOnce();
    rerender(shown(runInfo('a', { goes_on: true, state: 'paused', message: 'after step 14' })));
    expect(screen.getByText('paused')).toBeTruthy();
    expect(screen.getByText('after step 14')).toBeTruthy();
    expect(screen.queryByRole('button', { name: /^Pause/ })).toBeNull();
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Stop name-a' }).disabled).toBe(false);
    fireEvent.click(screen.getByRole('button', { name: 'Continue name-a' }));
    expect(does.onContinue).toHaveBeenCalledOnce();
  });

  it("shows the line of the user's code that failed, and the traceback", () => {
    const traceback =
      'Traceback:\n  File "/home/ada/train.py", line 3, in step\n    return 1 / 0\nZeroDivisionError: x';
    const tasks = [taskInfo('worker:0', { state: 'failed', message: 'ZeroDivisionError: x', traceback })];
    render(
      <Header
        run={runInfo('a', { state: 'failed', tasks })}
        trans={trans}
        onStop={vi.fn()}
        {...others()}
        onMenu={vi.fn()}
      />
    );
    const alert = screen.getByRole('alert');
    expect(alert.textContent).toContain('worker:0: ZeroDivisionError: x');
    expect(screen.getByText('train.py, line 3')).toBeTruthy();
    expect(screen.getByText('return 1 / 0')).toBeTruthy();
    expect(alert.querySelector('pre')!.textContent).toBe(traceback);
  });
});

describe('MachineHistory', () => {
  const shown = (machines: MachinesModel | null, ended = false) =>
    render(
      <MachineHistory machines={machines} cluster="digits" ended={ended} trans={trans}>
        <p>plots</p>
      </MachineHistory>
    );

  it('is only a sentence if the cluster is gone', () => {
    shown(null);
    expect(screen.getByText('The cluster digits is gone, and so is the data about its machines.')).toBeTruthy();
    expect(screen.queryByText('plots')).toBeNull();
  });

  it('explains why there is nothing to see', async () => {
    let answer: () => Promise<never[]> = () => Promise.reject(new Error('It does not respond'));
    const machines = new MachinesModel(0, () => answer());
    shown(machines, true);
    expect(screen.getByRole('status').textContent).toBe('Waiting for data from the machines…');
    machines.follow();
    expect(await screen.findByText('The machines cannot be queried: It does not respond')).toBeTruthy();
    machines.rest();
    answer = () => Promise.resolve([]);
    machines.follow();
    expect(await screen.findByText('There is no data about the machines during this run.')).toBeTruthy();
    machines.rest();
    expect(screen.getByText('plots')).toBeTruthy();
  });
});

describe('Tabs', () => {
  it('wraps around with the arrow keys, and keeps the contents of visited tabs', () => {
    const tabs = ['one', 'two', 'three'].map(id => ({ id, title: id, content: <p>{`content ${id}`}</p> }));
    function Held(): React.ReactElement {
      const [active, setActive] = React.useState('one');
      return <Tabs tabs={tabs} active={active} label="Views" onActive={setActive} />;
    }
    render(<Held />);
    expect(screen.queryByText('content three')).toBeNull();
    fireEvent.keyDown(screen.getByRole('tablist', { name: 'Views' }), { key: 'ArrowLeft' });
    expect(screen.getByRole('tab', { name: 'three' }).getAttribute('aria-selected')).toBe('true');
    expect(document.activeElement).toBe(screen.getByRole('tab', { name: 'three' }));
    expect(screen.getByRole('tabpanel', { name: 'three' }).textContent).toBe('content three');
    expect(screen.getByText('content one').closest('[role=tabpanel]')?.hasAttribute('hidden')).toBe(true);
  });
});

describe('Events', () => {
  const story: StoryEvent[] = [
    { type: 'run', time: 1, state: 'running', message: '', seq: 0 },
    noteEvent(1, { time: 2, title: '2 tasks share 1 core', text: 'Slower.' }),
    {
      ...taskInfo('worker:1', { state: 'failed', signal: 'SIGKILL', traceback: 'Traceback: boom', message: 'died' }),
      type: 'task',
      time: 3,
      seq: 2
    },
    {
      type: 'checkpoint',
      time: 4,
      task: 'worker:0',
      attempt: 0,
      removed: [],
      checkpoint: checkpointInfo(1200, { metric: 0.031 }),
      seq: 3
    }
  ];

  it('shows what happened, with the tracebacks of failures expanded', () => {
    render(<Events story={story} trans={trans} printed={task => `last words of ${task}`} />);
    expect(countTroubles(story)).toBe(2);
    expect(screen.getByText('2 tasks share 1 core')).toBeTruthy();
    expect(screen.getByText('failed · on 0 · SIGKILL · died')).toBeTruthy();
    expect(screen.getByText('Traceback: boom').closest('details')?.open).toBe(true);
    expect(screen.getByRole('img', { name: 'failed' })).toBeTruthy();
    expect(screen.getByText('last words of worker:1').closest('details')?.open).toBe(false);
    expect(screen.getByText('checkpoint of step 1200, 2.0 KiB, metric 0.031, written in 1.2 s')).toBeTruthy();
    expect(screen.getByRole('img', { name: 'checkpoint' })).toBeTruthy();
    expect(screen.getByText('/runs/a/1200')).toBeTruthy();
  });
});

describe('Output', () => {
  const lines = Array.from({ length: 5000 }, (_, number) => ({
    number,
    task: `worker:${number % 2}`,
    stream: 'stdout',
    time: 1,
    text: `line ${number}`
  }));

  it('renders only the visible lines, and filters by task', () => {
    render(
      <Output lines={lines} dropped={0} tasks={['worker:0', 'worker:1']} follow={false} ended={false} trans={trans} />
    );
    expect(screen.getByText('line 0')).toBeTruthy();
    expect(document.querySelectorAll('.jp-dtf-line').length).toBeLessThan(100);
    expect(screen.getByText('5000 lines')).toBeTruthy();
    fireEvent.change(screen.getByLabelText('task'), { target: { value: 'worker:1' } });
    expect(screen.queryByText('line 0')).toBeNull();
    expect(screen.getByText('2500 lines')).toBeTruthy();
    expect(screen.getByRole('log', { name: 'Output of the tasks' }).tabIndex).toBe(0);
  });

  it('shows that there is no output, or none yet', () => {
    const empty = (ended: boolean) => (
      <Output lines={[]} dropped={0} tasks={[]} follow={false} ended={ended} trans={trans} />
    );
    const { rerender } = render(empty(false));
    expect(screen.getByText('No output yet.')).toBeTruthy();
    rerender(empty(true));
    expect(screen.getByText('No output.')).toBeTruthy();
  });

  it('requests earlier lines, and the newest ones when it follows the output', () => {
    const pages = { hasEarlier: true, problem: '', earlier: vi.fn(), later: vi.fn(), follow: vi.fn() };
    render(
      <Output lines={lines} dropped={7} pages={pages} tasks={['worker:0']} follow={false} ended={false} trans={trans} />
    );
    expect(screen.getByText(/7 more are not shown/)).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Earlier lines' }));
    expect(pages.earlier).toHaveBeenCalledTimes(1);
    fireEvent.click(screen.getByLabelText('follow'));
    expect(pages.follow).toHaveBeenCalledWith('');
    fireEvent.change(screen.getByLabelText('task'), { target: { value: 'worker:0' } });
    expect(pages.follow).toHaveBeenLastCalledWith('worker:0');
  });

  it('shows where lines are missing, and why a page could not be fetched', () => {
    const pages = { hasEarlier: false, problem: 'not now', earlier: vi.fn(), later: vi.fn(), follow: vi.fn() };
    const gap = { ...lines[0]!, text: '', missing: 12 };
    render(<Output lines={[gap]} dropped={12} pages={pages} tasks={[]} follow={false} ended={false} trans={trans} />);
    expect(screen.getByText('… 12 lines are not shown: scroll up')).toBeTruthy();
    expect(screen.getByRole('alert').textContent).toBe('not now');
  });

  it('computes the visible lines', () => {
    expect(visibleRows(0, 180, 1000, 18)).toEqual([0, 30]);
    expect(visibleRows(1800, 180, 1000, 18)).toEqual([80, 130]);
    expect(visibleRows(1800, 180, 10, 18)).toEqual([10, 10]);
  });
});

describe('Links', () => {
  it('has a row for each pair of tasks, and highlights slow links', () => {
    const links = [
      { from: 'worker:0', to: 'worker:1', bytes: 2 ** 20, seconds: 0.5, slow: true },
      { from: 'worker:1', to: 'worker:0', bytes: 2 ** 20, seconds: 0.001, slow: false }
    ];
    const tasks = [taskInfo('worker:0', { host: 'ada' }), taskInfo('worker:1', { host: 'bert' })];
    render(<Links links={links} tasks={tasks} trans={trans} />);
    const rows = screen.getAllByRole('row').map(row => row.textContent);
    expect(rows[1]).toBe(
      'worker:0 adaThe link to worker:1 is far slower than the others. All tasks wait for it.worker:1 bert1.0 MiB500 ms2.0 MiB/s'
    );
    expect(rows[2]).toBe('worker:1 bertworker:0 ada1.0 MiB1 ms1000 MiB/s');
  });

  it('is empty if the tasks are on one machine', () => {
    expect(render(<Links links={[]} tasks={[]} trans={trans} />).container.textContent).toBe('');
  });
});

describe('Machines', () => {
  it('lists tasks with their exit status and resource usage', () => {
    const line = { metric: 'cpu', task: 'worker:0', x: new Float64Array([1]), y: new Float64Array([1.5]), version: 1 };
    const other = { ...line, metric: 'gpu_memory_bytes', y: new Float64Array([2 ** 30]) };
    const run = runInfo('a', {
      tasks: [taskInfo('worker:0'), taskInfo('worker:1', { state: 'failed', exit_code: 3 })]
    });
    const hosts = clusterInfo('digits').hosts.map(host => ({ ...host, problem: 'Keras 2 instead of 3' }));
    render(<Machines run={run} hosts={hosts} lines={[line, other]} trans={trans} />);
    expect(screen.getByText('Keras 2 instead of 3')).toBeTruthy();
    expect(screen.getByRole('row', { name: /worker:0.*running.*100.*1\.5 1\.0 GiB$/ })).toBeTruthy();
    expect(screen.getByRole('columnheader', { name: 'GPU memory' })).toBeTruthy();
    expect(screen.getByRole('row', { name: /worker:1.*failed \(exit status 3\)/ })).toBeTruthy();
    expect(screen.getByRole('row', { name: /node-a.*2\.0 \/ 4.*1\.2 \/ 4\.0 GiB/ })).toBeTruthy();
  });
});

describe('sparklinePoints', () => {
  it('goes from left to right, with the greatest value at the top', () => {
    expect(sparklinePoints([2, 1, NaN, 0])).toBe('1.0,2.0 30.0,8.0 59.0,14.0');
    expect(sparklinePoints([1])).toBe('');
  });
});
