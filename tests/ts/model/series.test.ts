import { describe, expect, it } from 'vitest';

import { SeriesStore } from '../../../src/model/series';

const frame = (start: number, x: number[], y: (number | null)[] = x) => ({
  metric: 'loss',
  task: 'w',
  start,
  x,
  y,
  replaced: ''
});

describe('SeriesStore', () => {
  it('keeps the first points of a line and appends the rest', () => {
    const store = new SeriesStore();
    expect(store.apply(frame(0, [1, 2, 3]))).toBe(true);
    expect(store.apply(frame(2, [4, 5, 6]))).toBe(true);
    expect([...store.lines('loss')[0]!.x]).toEqual([1, 2, 4, 5, 6]);
  });

  it('rejects a frame that does not follow the previous one', () => {
    const store = new SeriesStore();
    expect(store.apply(frame(1, [1]))).toBe(false);
    store.apply(frame(0, [1]));
    expect(store.apply(frame(2, [1]))).toBe(false);
  });

  it('reads null as a gap', () => {
    const store = new SeriesStore();
    store.apply(frame(0, [1, 2], [null, 2]));
    expect([...store.lines('loss')[0]!.y]).toEqual([NaN, 2]);
  });

  it('keeps replaced lines separate from the current ones', () => {
    const store = new SeriesStore();
    store.apply(frame(0, [1, 2, 3]));
    store.apply({ ...frame(0, [2, 3], [7, 8]), task: 'w, attempt 1', replaced: 'w' });
    expect(store.lines('loss').map(line => line.task)).toEqual(['w']);
    expect(store.xExtent(['loss'])).toEqual([1, 3]);
    const [before] = store.replaced('loss');
    expect([before!.name, before!.task, ...before!.y]).toEqual(['w, attempt 1', 'w', 7, 8]);
    store.clear();
    expect(store.replaced('loss')).toEqual([]);
  });

  it('distinguishes a line that is sent again from one that continues', () => {
    const store = new SeriesStore();
    store.apply(frame(0, [1, 2, 3, 4]));
    store.apply(frame(3, [5, 6])); // the last point was provisional
    expect(store.revision).toBe(0);
    store.apply(frame(0, [1, 1.5, 2, 2.5, 3, 6]));
    expect(store.revision).toBe(1);
    expect(store.tips(['loss', 'none'])).toEqual([6]);
  });

  it('never changes lines that it has returned', () => {
    const store = new SeriesStore();
    store.apply(frame(0, [1, 2, 3]));
    const [before] = store.lines('loss');
    store.apply(frame(1, [9]));
    store.apply(
      frame(
        2,
        Array.from({ length: 500 }, (_, i) => i)
      )
    );
    expect([...before!.x]).toEqual([1, 2, 3]);
    const [after] = store.lines('loss');
    expect(after!.x).toHaveLength(502);
    expect(after!.version).toBeGreaterThan(before!.version);
  });
});
