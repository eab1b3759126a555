import { describe, expect, it } from 'vitest';

import {
  extentOf,
  lanesOf,
  moved,
  ofStep,
  rowsOf,
  stepsOf,
  taskOf,
  ticksOf,
  totalsOf,
  zoomed
} from '../../../src/model/trace';
import { traceData, tracedOp } from '../fixtures';

const trace = traceData();

describe('a trace in rows', () => {
  it('has a row for each device, with its task', () => {
    expect(rowsOf(trace).map(row => [row.name, row.task, row.ops.length])).toEqual([
      ['ps:0 CPU:0', 'ps:0', 0],
      ['worker:0 CPU:0', 'worker:0', 3],
      ['worker:1 GPU:0', 'worker:1', 1]
    ]);
  });

  it('puts overlapping operations into separate lanes, each into the first free one', () => {
    const ops = [
      [0, 10],
      [2, 3],
      [5, 4],
      [6, 1],
      [10, 1]
    ].map(([start_us, duration_us]) => tracedOp({ start_us, duration_us }));
    expect(lanesOf(ops)).toEqual([0, 1, 1, 2, 0]);
  });

  it('draws at most eight lanes', () => {
    const ops = Array.from({ length: 20 }, (_, index) => tracedOp({ start_us: index, duration_us: 100 }));
    expect(rowsOf(traceData({ ops, transfers: [] }))[0]!.laneCount).toBe(8);
  });

  it('separates steps', () => {
    expect(stepsOf(trace)).toEqual([3, 4]);
    expect(ofStep(trace, 4).ops.map(op => op.op)).toEqual(['late']);
    expect(ofStep(trace, 4).transfers).toEqual([]);
    expect(ofStep(trace, null)).toBe(trace);
  });

  it('sums the time of each type of operation on each device', () => {
    expect(totalsOf(trace).map(total => [total.name, total.type, total.count, total.duration_us])).toEqual([
      ['worker:1 GPU:0', 'Relu', 1, 40],
      ['worker:0 CPU:0', 'MatMul', 2, 30],
      ['worker:0 CPU:0', 'Sum', 1, 5]
    ]);
  });

  it('finds the task of a device', () => {
    expect(taskOf('/job:worker/replica:0/task:12/device:CPU:0')).toBe('worker:12');
    expect(taskOf('/device:CPU:0')).toBe('localhost:0');
  });
});

describe('the visible part', () => {
  const whole = { start: 0, end: 100 };

  it('is the whole trace at first, even if that is empty', () => {
    expect(extentOf(trace)).toEqual({ start: 0, end: 205 });
    const none = extentOf(traceData({ ops: [], transfers: [] }));
    expect(none.end).toBeGreaterThan(none.start);
  });

  it('zooms around a time that stays where it is', () => {
    expect(zoomed(whole, 2, 50, whole)).toEqual({ start: 25, end: 75 });
    expect(zoomed({ start: 20, end: 60 }, 2, 20, whole)).toEqual({ start: 20, end: 40 });
  });

  it('never extends beyond the trace', () => {
    expect(zoomed({ start: 80, end: 100 }, 0.5, 100, whole)).toEqual({ start: 60, end: 100 });
    expect(zoomed(whole, 0.1, 50, whole)).toEqual(whole);
    expect(moved({ start: 80, end: 90 }, 50, whole)).toEqual({ start: 90, end: 100 });
    expect(moved({ start: 80, end: 90 }, -500, whole)).toEqual({ start: 0, end: 10 });
  });

  it('has a minimum width', () => {
    const narrow = zoomed(whole, 1e9, 50, whole);
    expect(narrow.end - narrow.start).toBeCloseTo(1);
  });

  it('has round times on its axis', () => {
    expect(ticksOf(whole, 5)).toEqual([0, 20, 40, 60, 80, 100]);
    expect(ticksOf({ start: 1234, end: 1239 }, 5)).toEqual([1234, 1235, 1236, 1237, 1238, 1239]);
  });
});
