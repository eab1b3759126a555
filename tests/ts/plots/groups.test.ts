import { describe, expect, it } from 'vitest';

import type { Line } from '../../../src/model/series';
import { compareTasks, groupLines, matches } from '../../../src/plots/groups';

const line = (metric: string, task = 'worker:0'): Line => ({
  metric,
  task,
  x: new Float64Array([1]),
  y: new Float64Array([1]),
  version: 1
});

describe('groupLines', () => {
  it('puts training and validation together, loss first and speed last', () => {
    const names = ['examples_per_second', 'val_accuracy', 'accuracy', 'step_seconds', 'val_loss', 'loss'];
    const groups = groupLines(
      names.map(name => line(name)),
      'each'
    );
    expect(groups.map(group => group.metric)).toEqual(['loss', 'accuracy', 'examples_per_second', 'step_seconds']);
    expect(groups[0]!.lines.map(one => one.validation)).toEqual([false, true]);
    expect(groups[2]!.title).toBe('examples/s');
  });

  it('shows each task, or the mean where the server made one', () => {
    const lines = [line('loss', ''), line('loss', 'worker:0'), line('loss', 'worker:1'), line('lr', 'worker:0')];
    const tasks = (mode: 'each' | 'mean') => groupLines(lines, mode).map(group => group.lines.map(one => one.task));
    expect(tasks('each')).toEqual([['worker:0', 'worker:1'], ['worker:0']]);
    expect(tasks('mean')).toEqual([[''], ['worker:0']]);
  });
});

describe('matches', () => {
  it.each([
    ['', true],
    ['LOSS', true],
    ['val_loss', true],
    ['accuracy', false]
  ])('%j', (filter, expected) => expect(matches('loss', filter)).toBe(expected));

  it('takes the title as well as the name', () => expect(matches('examples_per_second', 'examples/s')).toBe(true));
});

describe('compareTasks', () => {
  it('counts task indices as numbers', () => {
    expect(['worker:10', 'worker:2', 'chief:0'].sort(compareTasks)).toEqual(['chief:0', 'worker:2', 'worker:10']);
  });
});
