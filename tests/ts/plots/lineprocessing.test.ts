import { describe, expect, it } from 'vitest';

import { extent, indexAt, padded, smooth, within } from '../../../src/plots/lineprocessing';

const floats = (...values: number[]) => new Float64Array(values);

describe('smooth', () => {
  it('returns the line itself without smoothing', () => {
    const y = floats(1, 2);
    expect(smooth(y, 0)).toBe(y);
  });

  it('has no bias at the start', () => {
    const [first, second] = smooth(floats(4, 4), 0.9);
    expect(first).toBeCloseTo(4);
    expect(second).toBeCloseTo(4);
    // (0.5 * 0.5 * 0 + 0.5 * 3) / 0.75
    expect(smooth(floats(0, 3), 0.5)[1]).toBeCloseTo(2);
  });

  it('keeps gaps', () => {
    const y = smooth(floats(1, NaN, 1), 0.5);
    expect(y[1]).toBeNaN();
    expect(y[2]).toBeCloseTo(1);
  });
});

describe('limits', () => {
  it('are those of the values that can be drawn', () => {
    expect(extent([floats(1, NaN, Infinity), floats(-3)])).toEqual([-3, 1]);
    expect(extent([floats(-1, 0, 2)], true)).toEqual([2, 2]);
    expect(extent([floats(NaN)])).toBeNull();
  });

  it('are padded, are not negative without need, and never have a height of zero', () => {
    expect(padded([0, 1], false)).toEqual([0, 1.06]);
    expect(padded([5, 5], false)).toEqual([2.5, 7.5]);
    expect(padded([0, 0], false)).toEqual([0, 1]);
    expect(padded([5, 6], false, true)[0]).toBe(0);
    const [logLow, logHigh] = padded([1, 1], true);
    expect(logLow).toBeGreaterThan(0);
    expect(logHigh).toBeGreaterThan(logLow);
  });
});

describe('indexAt', () => {
  it.each([
    [0, -1],
    [1, 0],
    [1.5, 0],
    [9, 2]
  ])('of %d', (at, index) => expect(indexAt(floats(1, 2, 3), at)).toBe(index));
});

describe('within', () => {
  const y = floats(0, 1, 2, 3, 4);
  it('includes one more point on each side, if there is one', () => {
    expect([...within(floats(0, 1, 2, 3, 4), y, [1.5, 2.5])]).toEqual([1, 2, 3]);
    expect([...within(floats(0, 1, 2, 3, 4), y, [1.2, 1.8])]).toEqual([1, 2]);
    expect(within(floats(0, 1, 2, 3, 4), y, [0, 4])).toBe(y);
  });

  it('includes points of a line that goes back', () => {
    expect([...within(floats(0, 2, 9, 1, 3), y, [0.5, 2.5])]).toEqual([0, 1, 2, 3, 4]);
  });
});
