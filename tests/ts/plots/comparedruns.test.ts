import { expect, it } from 'vitest';

import type { EventSocket } from '../../../src/api/socket';
import { RunModel } from '../../../src/model/run';
import { ComparedRuns } from '../../../src/plots/comparedruns';
import { runInfo } from '../fixtures';

const socket = { show: () => undefined, subscribe: () => undefined, unsubscribe: () => undefined };

function model(id: string, metrics: string[], started: number): RunModel {
  const latest = Object.fromEntries(metrics.map(metric => [metric, 1]));
  const made = new RunModel(runInfo(id, { latest, started }), socket as unknown as EventSocket);
  const frame = (metric: string, task: string, y: number[]) => ({ metric, task, start: 0, x: [1, 2], y, replaced: '' });
  made.applySeries({
    type: 'series',
    run: id,
    frames: [frame('loss', 'worker:0', [3, 1]), frame('loss', '', [2, 1])].slice(0, metrics.length)
  });
  return made;
}

it('draws a line for each run: its mean, or its only task', () => {
  const runs = [
    { model: model('a', ['loss', 'accuracy', 'cpu'], 0), title: 'first' },
    { model: model('b', ['loss'], 0), title: 'second' }
  ];
  const source = new ComparedRuns(runs, 'step');
  expect(source.names).toEqual(['loss', 'accuracy']);
  expect(source.tasks).toEqual(['first', 'second']);
  expect(source.lines('loss').map(({ task, y }) => [task, [...y]])).toEqual([
    ['first', [2, 1]],
    ['second', [3, 1]]
  ]);
  expect(source.xExtent(['loss'])).toEqual([1, 2]);
  expect(source.xExtent(['accuracy'])).toBeNull();
  expect(source.colours().get('first')).not.toBe(source.colours().get('second'));
});

it('counts the time of each run from its own start', () => {
  const late = model('a', ['loss'], 1);
  late.setX('time');
  late.applySeries({
    type: 'series',
    run: 'a',
    frames: [{ metric: 'loss', task: 'worker:0', start: 0, x: [1, 3], y: [2, 1], replaced: '' }]
  });
  const source = new ComparedRuns([{ model: late, title: 'late' }], 'time');
  const [line] = source.lines('loss');
  expect([...line!.x]).toEqual([0, 2]);
  expect(source.lines('loss')[0]!.x).toBe(line!.x);
  expect(new ComparedRuns([{ model: late, title: 'late' }], 'step').lines('loss')).toEqual([]);
});

it('returns the ends of lines in the units of the axis', () => {
  const early = model('a', ['loss'], 1);
  const late = model('b', ['loss'], 1000);
  const runs = [
    { model: early, title: 'early' },
    { model: late, title: 'late' }
  ];
  expect(new ComparedRuns(runs, 'step').tips(['loss'])).toEqual([2, 2]);
  runs.forEach(run => run.model.setX('time'));
  early.applySeries({
    type: 'series',
    run: 'a',
    frames: [{ metric: 'loss', task: 'worker:0', start: 0, x: [1, 3], y: [2, 1], replaced: '' }]
  });
  late.applySeries({
    type: 'series',
    run: 'b',
    frames: [{ metric: 'loss', task: 'worker:0', start: 0, x: [1000, 1005], y: [2, 1], replaced: '' }]
  });
  const source = new ComparedRuns(runs, 'time');
  expect(source.tips(['loss'])).toEqual([2, 5]);
  expect(source.xExtent(['loss'])).toEqual([0, 5]);
});
