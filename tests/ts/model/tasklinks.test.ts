import { describe, expect, it } from 'vitest';

import { isLoad, isOfPair, linksOf } from '../../../src/model/tasklinks';
import type { Line } from '../../../src/model/series';

const line = (metric: string, task: string, ...y: number[]) =>
  ({ metric, task, x: Float64Array.from(y, (_, index) => index), y: Float64Array.from(y) }) as Line;

describe('links', () => {
  it('connect two tasks, as reported by the first', () => {
    const lines = [
      line('seconds_per_step_to_worker:0', 'worker:1', 0.5, 0.25),
      line('bytes_per_step_to_worker:0', 'worker:1', 9, 1000),
      line('bytes_per_step_to_worker:1', 'worker:0', 2000),
      line('bytes_per_step_to_worker:1', '', 5),
      line('cpu', 'worker:0', 1)
    ];
    expect(linksOf(lines, ['worker:0', 'worker:1'])).toEqual([
      { from: 'worker:0', to: 'worker:1', bytes: 2000, seconds: 0, slow: false },
      { from: 'worker:1', to: 'worker:0', bytes: 1000, seconds: 0.25, slow: false }
    ]);
  });

  it('are omitted when they are not reported any more', () => {
    const now = { ...line('bytes_per_step_to_worker:1', 'worker:0', 5), x: Float64Array.of(20) };
    const before = { ...line('bytes_per_step_to_worker:2', 'worker:0', 5), x: Float64Array.of(3) };
    expect(linksOf([before, now], ['worker:0']).map(({ to }) => to)).toEqual(['worker:1']);
  });

  const ring = (...seconds: number[]) =>
    linksOf(
      seconds.flatMap((value, task) => [
        line(`bytes_per_step_to_worker:${(task + 1) % seconds.length}`, `worker:${task}`, 1e6),
        line(`seconds_per_step_to_worker:${(task + 1) % seconds.length}`, `worker:${task}`, value)
      ]),
      seconds.map((_, task) => `worker:${task}`)
    ).map(({ slow }) => slow);

  it('are slow compared with the others, including both links of one machine', () => {
    expect(ring(0.005, 0.5, 0.005)).toEqual([false, true, false]);
    expect(ring(0.12, 0.13, 0.003)).toEqual([true, true, false]);
    expect(ring(0.12, 0.13, 0.11)).toEqual([false, false, false]);
  });

  it('are not slow if they delay no task, or if there are no others to compare with', () => {
    expect(ring(0.0001, 0.005, 0.0001)).toEqual([false, false, false]);
    expect(ring(0.5, 0.001)).toEqual([false, false]);
  });

  it('are a network load, not a metric of the model', () => {
    expect(['bytes_per_step_to_worker:1', 'cpu', 'loss'].map(isLoad)).toEqual([true, true, false]);
    expect(['bytes_per_step_to_worker:1', 'cpu', 'loss'].map(isOfPair)).toEqual([true, false, false]);
  });
});
