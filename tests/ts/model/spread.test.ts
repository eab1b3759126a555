import { describe, expect, it } from 'vitest';

import { rangesOf, spreadOf } from '../../../src/model/spread';

const members = (values: number[]) => values.map((value, index) => ({ name: `worker:${index}`, value }));

describe('the spread of a figure', () => {
  it('has the mean, the standard deviation and the extremes', () => {
    const spread = spreadOf(members([1, 2, 3, 6]))!;
    expect(spread).toMatchObject({ count: 4, mean: 3, low: { name: 'worker:0' }, high: { name: 'worker:3' } });
    expect(spread.deviation).toBeCloseTo(Math.sqrt(3.5));
  });

  it('has the outliers, the most distant first', () => {
    const values = Array.from({ length: 512 }, (_, index) => 0.1 + 0.001 * (index % 10));
    values[317] = 0.4;
    values[20] = 0.2;
    expect(spreadOf(members(values))!.outliers.map(({ name }) => name)).toEqual(['worker:317', 'worker:20']);
  });

  it('has no outliers for small differences, nor for two large groups', () => {
    const alike = Array.from({ length: 100 }, () => 5);
    expect(spreadOf(members([...alike, 5.05]))!.outliers).toEqual([]);
    expect(spreadOf(members([...alike, 6]))!.outliers).toHaveLength(1);
    expect(spreadOf(members([...alike, ...alike.map(() => 9)]))!.outliers).toEqual([]);
  });

  it('ignores values that are not finite', () => {
    expect(spreadOf(members([NaN, 1, Infinity]))).toMatchObject({ count: 1, mean: 1 });
    expect(spreadOf(members([NaN]))).toBeNull();
  });
});

describe('names in ranges', () => {
  it('have the stem once, and show gaps', () => {
    expect(rangesOf(['worker:0', 'worker:1', 'worker:2', 'worker:7', 'ps:0', 'ps:1'])).toBe('worker:0–2, 7, ps:0–1');
    expect(rangesOf(['chief:0', 'worker:0'])).toBe('chief:0, worker:0');
  });

  it('do not group names without a number, or with leading zeros', () => {
    expect(rangesOf(['lab', 'node-1', 'node-2', 'node-03'])).toBe('lab, node-1–2, node-03');
    expect(rangesOf([])).toBe('');
  });
});
