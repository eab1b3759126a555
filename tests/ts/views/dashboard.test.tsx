import { nullTranslator } from '@jupyterlab/translation';
import { fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import type { StoryEvent } from '../../../src/model/run';
import { countTroubles, Events } from '../../../src/views/events';
import { Header } from '../../../src/views/header';
import { Machines } from '../../../src/views/machines';
import { Output, visibleRange } from '../../../src/views/output';
import { sparklinePoints } from '../../../src/views/sparkline';
import { Tabs } from '../../../src/views/tabs';
import { clusterInfo, runInfo, taskInfo } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

describe('Header', () => {
  it('says what the run is and how far, and stops it', () => {
    const stop = vi.fn();
    const menu = vi.fn();
    render(<Header run={runInfo('a')} trans={trans} onStop={stop} onMenu={menu} />);
    expect(screen.getByRole('heading', { name: 'name-a' })).toBeTruthy();
    expect(screen.getByText('epoch 3/5')).toBeTruthy();
    expect(screen.getByRole('progressbar', { name: '58 % done' })).toBeTruthy();
    expect(screen.getByText('digits · 2 worker · allreduce · batch_size 64 · optimizer Adam')).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Stop name-a' }));
    fireEvent.click(screen.getByRole('button', { name: 'More about name-a' }));
    expect(stop).toHaveBeenCalledOnce();
    expect(menu).toHaveBeenCalledOnce();
  });

  it('says why a run failed, and offers no stop', () => {
    const run = runInfo('a', { state: 'failed', message: 'worker:1 died (SIGKILL)', ended: 1073 });
    render(<Header run={run} trans={trans} onStop={vi.fn()} onMenu={vi.fn()} />);
    expect(screen.getByText('worker:1 died (SIGKILL)')).toBeTruthy();
    expect(screen.getByText('took 1m 12s')).toBeTruthy();
    expect(screen.queryByRole('button', { name: /^Stop/ })).toBeNull();
  });
});

describe('Tabs', () => {
  it('goes round with the arrow keys and keeps what was looked at', () => {
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
    { type: 'note', time: 2, level: 'warning', title: '2 tasks share 1 core', text: 'Slower.', task: '', seq: 1 },
    {
      ...taskInfo('worker:1', { state: 'failed', signal: 'SIGKILL', traceback: 'Traceback: boom', message: 'died' }),
      type: 'task',
      time: 3,
      seq: 2
    }
  ];

  it('tells what happened, failures with their traceback open', () => {
    render(<Events story={story} trans={trans} />);
    expect(countTroubles(story)).toBe(2);
    expect(screen.getByText('2 tasks share 1 core')).toBeTruthy();
    expect(screen.getByText('failed · SIGKILL · died')).toBeTruthy();
    expect(screen.getByText('Traceback: boom').closest('details')?.open).toBe(true);
    expect(screen.getByRole('img', { name: 'failed' })).toBeTruthy();
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

  it('puts only the lines in sight into the page, and filters by task', () => {
    render(<Output lines={lines} dropped={0} tasks={['worker:0', 'worker:1']} follow={false} trans={trans} />);
    expect(screen.getByText('line 0')).toBeTruthy();
    expect(document.querySelectorAll('.jp-dtf-line').length).toBeLessThan(100);
    expect(screen.getByText('5000 lines')).toBeTruthy();
    fireEvent.change(screen.getByLabelText('task'), { target: { value: 'worker:1' } });
    expect(screen.queryByText('line 0')).toBeNull();
    expect(screen.getByText('2500 lines')).toBeTruthy();
    expect(screen.getByRole('log', { name: 'Output of the tasks' }).tabIndex).toBe(0);
  });

  it('knows which lines can be seen', () => {
    expect(visibleRange(0, 180, 1000)).toEqual([0, 30]);
    expect(visibleRange(1800, 180, 1000)).toEqual([80, 130]);
    expect(visibleRange(1800, 180, 10)).toEqual([10, 10]);
  });
});

describe('Machines', () => {
  it('lists tasks with how they ended and what they used', () => {
    const line = { metric: 'cpu', task: 'worker:0', x: new Float64Array([1]), y: new Float64Array([1.5]), version: 1 };
    const run = runInfo('a', {
      tasks: [taskInfo('worker:0'), taskInfo('worker:1', { state: 'failed', exit_code: 3 })]
    });
    render(<Machines run={run} hosts={clusterInfo('digits').hosts} lines={[line]} trans={trans} />);
    expect(screen.getByRole('row', { name: /worker:0.*running.*100.*1\.5/ })).toBeTruthy();
    expect(screen.getByRole('row', { name: /worker:1.*failed \(exit status 3\)/ })).toBeTruthy();
    expect(screen.getByRole('row', { name: /node-a.*2\.0 \/ 4.*1\.2 \/ 4\.0 GiB/ })).toBeTruthy();
  });
});

describe('sparklinePoints', () => {
  it('goes from the left to the right, the greatest value on top', () => {
    expect(sparklinePoints([2, 1, NaN, 0])).toBe('1.0,2.0 30.0,8.0 59.0,14.0');
    expect(sparklinePoints([1])).toBe('');
  });
});
