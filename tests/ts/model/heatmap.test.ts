import { describe, expect, it } from 'vitest';

import type { Histogram } from '../../../src/api/schema';
import { heatMap } from '../../../src/model/heatmap';

function histogram(step: number, low: number, high: number, counts: number[]): Histogram {
  return {
    type: 'histogram',
    time: 0,
    attempt: 0,
    task: 'w',
    name: 'n',
    step,
    low,
    high,
    counts,
    not_a_number: 0,
    infinite: 0
  };
}

describe('heatMap', () => {
  it('maps histograms with different limits to common rows, as fractions of each histogram', () => {
    const map = heatMap([histogram(0, 0, 4, [1, 1, 1, 1]), histogram(5, 0, 2, [30, 10])], 4)!;
    expect([map.low, map.high, map.steps]).toEqual([0, 4, [0, 5]]);
    expect([...map.shares.subarray(0, 4)]).toEqual([0.25, 0.25, 0.25, 0.25]);
    expect([...map.shares.subarray(4)]).toEqual([0.75, 0.25, 0, 0]);
    expect(map.most).toBe(0.75);
  });

  it('divides a wide bin among the rows that it covers', () => {
    const map = heatMap([histogram(0, 0, 4, [8])], 4)!;
    expect([...map.shares]).toEqual([0.25, 0.25, 0.25, 0.25]);
  });

  it('shows a single value, and an empty column if no value is finite', () => {
    const map = heatMap([histogram(0, 3, 3, [5]), histogram(1, 0, 0, [])], 4)!;
    expect(map.low).toBeLessThan(3);
    expect([...map.shares].filter(share => share > 0)).toEqual([1]);
    expect(heatMap([histogram(1, 0, 0, [])])).toBeNull();
  });
});
