import { describe, expect, it } from 'vitest';

import { bandOf } from '../../../src/plots/minmaxband';

const floats = (...values: number[]) => new Float64Array(values);

describe('bandOf', () => {
  it('extends from the minimum to the maximum, also between points', () => {
    const band = bandOf([
      { x: floats(0, 2, 4), y: floats(0, 2, 0) },
      { x: floats(0, 4), y: floats(1, 1) }
    ]);
    expect([...band.x]).toEqual([0, 2, 4]);
    expect([...band.low]).toEqual([0, 1, 0]);
    expect([...band.high]).toEqual([1, 2, 1]);
  });

  it('has no gap where one value is not a number, and ends where all lines end', () => {
    const band = bandOf([
      { x: floats(0, 1, 2), y: floats(NaN, 5, NaN) },
      { x: floats(1, 2, 3), y: floats(4, NaN, Infinity) }
    ]);
    expect([...band.x]).toEqual([1]);
    expect([...band.low]).toEqual([4]);
    expect([...band.high]).toEqual([5]);
  });

  it('keeps every peak of thousands of points with a few hundred edges', () => {
    const x = Float64Array.from({ length: 5000 }, (_, i) => i);
    const y = x.map(at => (at === 1777 ? 9 : Math.sin(at)));
    const band = bandOf([{ x, y }]);
    expect(band.x.length).toBeLessThan(500);
    const after = band.x.findIndex(edge => edge >= 1777);
    expect(band.high[after]).toBe(9);
    expect(band.high[after - 1]).toBe(9);
    expect(band.x[band.x.length - 1]).toBe(4999);
  });
});
