import { describe, expect, it } from 'vitest';

import { taskHeat, xOf } from '../../../src/model/taskheat';

const line = (task: string, x: number[], y: number[]) => ({
  metric: 'step_seconds',
  task,
  x: Float64Array.from(x),
  y: Float64Array.from(y),
  version: 1
});

describe('taskHeat', () => {
  it('has a row for each task, in order, and a column for each interval of x', () => {
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

  it('repeats the last value between two points, but not after the last point of a task', () => {
    const heat = taskHeat(
      [line('a', [0, 4, 5], [1, 2, 3]), line('b', [0, 1, 2, 3, 4, 5, 6, 7], Array<number>(8).fill(1))],
      ['a', 'b']
    )!;
    expect([...heat.values.subarray(0, 8)]).toEqual([1, 1, 1, 1, 2, 3, NaN, NaN]);
  });

  it('is not dominated by one straggler among hundreds of tasks', () => {
    const tasks = Array.from({ length: 512 }, (_, index) => `worker:${index}`);
    const lines = tasks.map((task, index) => line(task, [0, 1], index === 317 ? [9, 9] : [1 + (index % 3) / 100, 1]));
    const heat = taskHeat(lines, tasks)!;
    expect(heat.high).toBeLessThan(1.1);
    expect(heat.spread.outliers).toEqual([{ name: 'worker:317', value: 9 }]);
  });

  it('is null if no finite value was reported', () => {
    expect(taskHeat([line('a', [0], [NaN])], ['a'])).toBeNull();
    expect(taskHeat([], ['a'])).toBeNull();
  });
});
