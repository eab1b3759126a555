import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { RedrawPace } from '../../../src/plots/redrawpace';

/** The plots are 500 pixels wide, and show lines from 0 to their ends. */
describe('RedrawPace', () => {
  let again: ReturnType<typeof vi.fn<() => void>>;
  let pace: RedrawPace;
  const next = (...tips: number[]) => pace.next(tips, [0, Math.max(...tips)], 500 / Math.max(...tips));

  beforeEach(() => {
    vi.useFakeTimers();
    again = vi.fn<() => void>();
    pace = new RedrawPace(again);
  });

  afterEach(() => {
    pace.dispose();
    vi.useRealTimers();
  });

  it('draws each point of a short line, and those of a long line that move it visibly', () => {
    expect([10, 11, 12].map(tip => next(tip))).toEqual(['lines', 'lines', 'lines']);
    expect(next(100_000)).toBe('lines');
    expect(next(100_050)).toBe('nothing');
    expect(pace.defers).toBe(true);
    pace.need();
    expect(pace.defers).toBe(false);
    expect(next(100_120)).toBe('lines');
    expect(next(100_340)).toBe('lines'); // 1.1 pixels
    expect(pace.defers).toBe(false);
  });

  it('updates values within a second and the lines later, even if there are no more points', () => {
    next(100_000);
    expect(next(100_010)).toBe('nothing');
    vi.advanceTimersByTime(999);
    expect(again).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(again).toHaveBeenCalledTimes(1);
    expect(next(100_010)).toBe('values');
    vi.advanceTimersByTime(19_000);
    expect(again).toHaveBeenCalledTimes(2);
    expect(next(100_010)).toBe('lines');
    expect(next(100_010)).toBe('nothing');
    vi.advanceTimersByTime(60_000);
    expect(again).toHaveBeenCalledTimes(2);
  });

  it('draws new lines, visible movements of any line, and on request', () => {
    next(100_000, 50);
    expect(next(100_000, 50, 1)).toBe('lines');
    expect(next(100_000, 49_000, 1)).toBe('lines');
    pace.need();
    expect(next(100_000, 49_000, 1)).toBe('lines');
  });

  it('draws nothing while new points are outside of the limits', () => {
    const zoomed = (tip: number) => pace.next([tip], [100, 200], 5);
    expect([1000, 2000, 3000].map(zoomed)).toEqual(['lines', 'nothing', 'nothing']);
  });

  it('does not call back after it is disposed', () => {
    next(100_000);
    next(100_010);
    pace.dispose();
    vi.advanceTimersByTime(60_000);
    expect(again).not.toHaveBeenCalled();
  });
});
