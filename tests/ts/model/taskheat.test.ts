import { describe, expect, it } from 'vitest';

import { taskHeat, xOf } from '../../../src/model/taskheat';

const line = (task: string, x: number[], y: number[]) => ({
  metric: 'step_seconds',
  task,
  x: Float64Array.from(x),
  y: Float64Array.from(y),
  version: 1
});

describe('tasks over time', () => {
  it('have a row each, in their order, and a column for each part of x', () => {
    const heat = taskHeat(
      [line('worker:1', [0, 1, 2, 3], [5, 6, 7, 8]), line('worker:0', [0, 1, 2, 3], [1, 2, 3, 4]), line('', [0], [9])],
      ['worker:0', 'worker:1', 'worker:2'],
      2
    )!;
    expect(heat).toMatchObject({ tasks: ['worker:0', 'worker:1'], columns: 2, start: 0, end: 3 });
    expect([...heat.values]).toEqual([1.5, 3.5, 5.5, 7.5]);
    expect(heat.spread).toMatchObject({ mean: 4.5, low: { name: 'worker:0', value: 2.5 } });
    expect(xOf(heat, 0)).toBe(0.75);
  });

  it('goes on with the last value between two points, and not beyond a task’s last', () => {
    const heat = taskHeat([line('a', [0, 4, 5], [1, 2, 3]), line('b', [0, 1, 2, 3, 4, 5, 6, 7], Array(8).fill(1))], ['a', 'b'])!;
    expect([...heat.values.subarray(0, 8)]).toEqual([1, 1, 1, 1, 2, 3, NaN, NaN]);
  });

  it('draws one straggler of hundreds darkest without making the others one tone', () => {
    const tasks = Array.from({ length: 512 }, (_, index) => `worker:${index}`);
    const lines = tasks.map((task, index) => line(task, [0, 1], index === 317 ? [9, 9] : [1 + (index % 3) / 100, 1]));
    const heat = taskHeat(lines, tasks)!;
    expect(heat.high).toBeLessThan(1.1);
    expect(heat.spread.outliers).toEqual([{ name: 'worker:317', value: 9 }]);
  });

  it('is nothing where nothing finite was reported', () => {
    expect(taskHeat([line('a', [0], [NaN])], ['a'])).toBeNull();
    expect(taskHeat([], ['a'])).toBeNull();
  });
});
