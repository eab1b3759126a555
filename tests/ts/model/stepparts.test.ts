import { describe, expect, it } from 'vitest';

import { isLoad } from '../../../src/model/tasklinks';
import type { Line } from '../../../src/model/series';
import { taskStepsOf } from '../../../src/model/stepparts';

const line = (part: string, task: string, ...y: number[]): Line => ({
  metric: `step_${part}_seconds`,
  task,
  x: Float64Array.from(y, (_, index) => 100 * index),
  y: Float64Array.from(y),
  version: 1
});

/** Returns the lines of a task that waits this long for its batch and for other tasks, in steps of 100 ms. */
const task = (name: string, input: number, wait: number) => [
  line('compute', name, 0.02),
  line('input', name, input),
  line('exchange', name, wait + 0.01),
  line('wait', name, wait),
  line('checkpoint', name, 0)
];

describe('the parts of a step', () => {
  it('are the latest values, and the exchange does not include waiting', () => {
    const lines = [
      line('compute', 'worker:0', 9, 0.02),
      line('input', 'worker:0', NaN, 0.01),
      line('exchange', 'worker:0', 0.05),
      line('wait', 'worker:0', 0.03),
      line('compute', '', 5)
    ];
    const [step, ...others] = taskStepsOf(lines, ['worker:0', 'worker:1']);
    expect(others).toEqual([]);
    expect(step!.parts.exchange).toBeCloseTo(0.02);
    expect(step!.seconds).toBeCloseTo(0.08);
    expect({ ...step!.parts, exchange: 0 }).toEqual({ compute: 0.02, input: 0.01, exchange: 0, wait: 0.03 });
  });

  it('show which task the others wait for', () => {
    const two = [...task('worker:0', 0.07, 0), ...task('worker:1', 0, 0.07)];
    expect(taskStepsOf(two, ['worker:0', 'worker:1']).map(({ slow }) => slow)).toEqual([true, false]);
    const names = ['worker:0', 'worker:1', 'worker:2', 'worker:3'];
    const alike = names.flatMap(name => task(name, 0.01, 0.01));
    expect(taskStepsOf(alike, names).map(({ slow }) => slow)).toEqual([false, false, false, false]);
    const one = names.flatMap(name => task(name, name === 'worker:2' ? 0.05 : 0, name === 'worker:2' ? 0 : 0.05));
    expect(taskStepsOf(one, names).map(({ slow }) => slow)).toEqual([false, false, true, false]);
  });

  it('do not show it if waiting times are unknown', () => {
    const lines = [line('compute', 'worker:0', 0.1), line('compute', 'worker:1', 0.01)];
    expect(taskStepsOf(lines, ['worker:0', 'worker:1']).map(({ slow }) => slow)).toEqual([false, false]);
  });

  it('are a load, not a metric of the model', () => {
    expect(['step_input_seconds', 'step_seconds'].map(isLoad)).toEqual([true, false]);
  });
});
