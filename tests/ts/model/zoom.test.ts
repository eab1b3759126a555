import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { SeriesMessage } from '../../../src/api/schema';
import { SeriesPart, Zoom } from '../../../src/model/zoom';
import type { Line } from '../../../src/model/series';

const LONG = Float64Array.from({ length: 600 }, (_, i) => i);

/** The tests control the clock. */
describe('Zoom', () => {
  let asked: SeriesPart[];
  let answers: ((message: SeriesMessage | Promise<never>) => void)[];
  let whole: { x: 'step'; width: number; lines(metric: string): Line[]; all: Float64Array };
  let changed: ReturnType<typeof vi.fn>;
  let zoom: Zoom;

  const part = (y: number[]): SeriesMessage => ({
    type: 'series',
    run: 'r',
    frames: [{ metric: 'loss', task: 'w', start: 0, x: y.map((_, i) => 10 + i), y, replaced: '' }]
  });
  const answer = async (y: number[]) => {
    answers.shift()!(part(y));
    await vi.advanceTimersByTimeAsync(0);
  };

  beforeEach(() => {
    vi.useFakeTimers();
    asked = [];
    answers = [];
    changed = vi.fn();
    whole = {
      x: 'step',
      width: 600,
      all: LONG,
      lines: metric => (metric === 'loss' ? [{ metric, task: 'w', x: whole.all, y: whole.all, version: 1 }] : [])
    };
    const fetch = (one: SeriesPart) => {
      asked.push(one);
      return new Promise<SeriesMessage>(take => answers.push(take));
    };
    zoom = new Zoom(whole, fetch, changed as () => void);
    return () => vi.useRealTimers();
  });

  it('requests the visible part once when it has settled, and has no lines of its own until then', async () => {
    zoom.look([10, 40], ['loss']);
    vi.advanceTimersByTime(100);
    zoom.look([10, 20], ['loss', 'unknown']);
    vi.advanceTimersByTime(100);
    expect(asked).toEqual([]);
    vi.advanceTimersByTime(100);
    expect(asked).toEqual([{ metrics: ['loss'], start: 10, end: 20, width: 600, x: 'step' }]);
    expect(zoom.lines('loss')).toBeNull();
    await answer([1, 2, 3]);
    expect(changed).toHaveBeenCalledOnce();
    expect([...zoom.lines('loss')![0]!.y]).toEqual([1, 2, 3]);
    zoom.look([10, 20], ['loss']);
    vi.advanceTimersByTime(5000);
    expect(asked).toHaveLength(1);
    zoom.look(null, ['loss']);
    expect(zoom.lines('loss')).toBeNull();
  });

  it('ignores a response for a part that is not visible any more', async () => {
    zoom.look([10, 20], ['loss']);
    vi.advanceTimersByTime(200);
    zoom.look([10, 30], ['loss']);
    await answer([1]);
    expect(zoom.lines('loss')).toBeNull();
    expect(changed).not.toHaveBeenCalled();
  });

  it('requests the part again when it gets new points', async () => {
    zoom.look([10, 900], ['loss']);
    vi.advanceTimersByTime(200);
    await answer([1]);
    whole.all = Float64Array.from({ length: 610 }, (_, i) => i);
    zoom.look([10, 900], ['loss']);
    vi.advanceTimersByTime(200);
    expect(asked).toHaveLength(1); // not so soon
    vi.advanceTimersByTime(1000);
    zoom.look([10, 900], ['loss']);
    vi.advanceTimersByTime(200);
    expect(asked).toHaveLength(2);
  });

  it('tries again after a failed request, after pauses that grow, and keeps its lines until then', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(1);
    vi.spyOn(console, 'warn').mockReturnValue(undefined);
    const fail = async () => {
      answers.shift()!(Promise.reject(new Error('no answer')));
      await vi.advanceTimersByTimeAsync(0);
    };
    zoom.look([10, 900], ['loss']);
    vi.advanceTimersByTime(200);
    await answer([1]);
    whole.all = Float64Array.from({ length: 610 }, (_, i) => i);
    vi.advanceTimersByTime(1000);
    zoom.look([10, 900], ['loss']);
    vi.advanceTimersByTime(0);
    await fail();
    vi.advanceTimersByTime(499);
    zoom.look([10, 900], ['loss']);
    expect(asked).toHaveLength(2);
    vi.advanceTimersByTime(1);
    expect(asked).toHaveLength(3);
    await fail();
    vi.advanceTimersByTime(999);
    expect(asked).toHaveLength(3);
    vi.advanceTimersByTime(1);
    expect(asked).toHaveLength(4);
    expect([...zoom.lines('loss')![0]!.y]).toEqual([1]);
    await answer([5, 6]);
    expect([...zoom.lines('loss')![0]!.y]).toEqual([5, 6]);
  });

  it('does not try again once other limits are visible, or none', async () => {
    vi.spyOn(console, 'warn').mockReturnValue(undefined);
    zoom.look([10, 900], ['loss']);
    vi.advanceTimersByTime(200);
    zoom.look(null, []);
    answers.shift()!(Promise.reject(new Error('no answer')));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveLength(1);
  });

  it('requests nothing if it already has all points', () => {
    whole.all = LONG.subarray(0, 100);
    zoom.look([10, 20], ['loss']);
    vi.advanceTimersByTime(1000);
    expect(asked).toEqual([]);
  });
});
