import type { IDisposable } from '@lumino/disposable';

// A line that has grown by less than this, in pixels, looks as before.
const VISIBLE_PX = 1;
// Changes too small to be seen are drawn after this time, since points may also be new in the middle of a line.
const LINES_MS = 20_000;
// The newest values, as text, are up to date within this time.
const VALUES_MS = 1000;

/** The parts of a plot to update: the lines and everything else, the newest values only, or nothing yet. */
export type Redraw = 'lines' | 'values' | 'nothing';

/**
 * Decides when new points are worth a redraw. The longer a run, the less visible a single point: after 100,000 points,
 * ten new ones move a line by a fifteenth of a pixel, and drawing them ten times a second would keep a processor busy.
 */
export class RedrawPace implements IDisposable {
  /** `again` is called when it is time for an update that was deferred. */
  constructor(private readonly _again: () => void) {}

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Whether there are new points whose update was deferred, because they are hardly visible. */
  get defers(): boolean {
    return this._timer !== undefined && !this._needed;
  }

  /** Call when something other than points has changed, so that the lines are redrawn. */
  need(): void {
    this._needed = true;
  }

  /**
   * Return the parts to update, which are then considered up to date. `tips`: the newest x of each line. The third
   * argument is the number of pixels per unit of x, on an axis with these limits.
   */
  next(tips: readonly number[], limits: readonly [number, number], pixels: number): Redraw {
    const now = performance.now();
    clearTimeout(this._timer);
    this._timer = undefined;
    if (this._needed || now >= this._linesAt + LINES_MS || this._isVisible(tips, limits, pixels)) {
      this._needed = false;
      this._tips = tips;
      this._linesAt = this._valuesAt = now;
      return 'lines';
    }
    if (tips.every((tip, index) => tip === this._tips[index])) {
      return 'nothing';
    }
    const due = now >= this._valuesAt + VALUES_MS;
    if (due) {
      this._valuesAt = now;
    }
    this._timer = setTimeout(this._again, (due ? this._linesAt + LINES_MS : this._valuesAt + VALUES_MS) - now);
    return due ? 'values' : 'nothing';
  }

  dispose(): void {
    this._disposed = true;
    clearTimeout(this._timer);
  }

  private _isVisible(tips: readonly number[], [start, end]: readonly [number, number], pixels: number): boolean {
    const at = (x: number) => Math.min(end, Math.max(start, x)) * pixels;
    const looksAsBefore = (x: number, index: number) => Math.abs(at(x) - at(this._tips[index]!)) < VISIBLE_PX;
    return tips.length !== this._tips.length || !tips.every(looksAsBefore);
  }

  private _needed = true;
  private _tips: readonly number[] = [];
  private _linesAt = -Infinity;
  private _valuesAt = -Infinity;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _disposed = false;
}
