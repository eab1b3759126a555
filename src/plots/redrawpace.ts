import type { IDisposable } from '@lumino/disposable';

// A line that has grown by less than this, in pixels, looks as before.
const VISIBLE_PX = 0.5;
// What is not drawn at once is drawn this much later. Points may also be new in the middle of a line.
const LATER_MS = 1000;

/**
 * Decides when new points are worth a redraw. The longer a run, the less a point is seen of: of 100,000 points, ten new
 * ones move a line by a fifteenth of a pixel, and drawing them ten times a second would keep a processor busy.
 */
export class RedrawPace implements IDisposable {
  /** `again` is called when it is time to draw what was not worth it at first. */
  constructor(private readonly _again: () => void) {}

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Something other than points has changed: the next drawing is due. */
  need(): void {
    this._needed = true;
  }

  /**
   * Whether lines must be drawn whose newest points are at these x, on an axis with these limits and so many pixels per
   * unit of x. They are then considered drawn.
   */
  isDue(tips: readonly number[], [start, end]: readonly [number, number], pixels: number): boolean {
    const now = performance.now();
    const seen = (x: number) => Math.min(end, Math.max(start, x)) * pixels;
    const looksAsBefore = (x: number, index: number) => Math.abs(seen(x) - seen(this._tips[index]!)) < VISIBLE_PX;
    if (!this._needed && now - this._at < LATER_MS && this._tips.length === tips.length && tips.every(looksAsBefore)) {
      this._timer ??= setTimeout(
        () => {
          this._timer = undefined;
          this._again();
        },
        this._at + LATER_MS - now
      );
      return false;
    }
    clearTimeout(this._timer);
    this._timer = undefined;
    this._needed = false;
    this._tips = tips;
    this._at = now;
    return true;
  }

  dispose(): void {
    this._disposed = true;
    clearTimeout(this._timer);
  }

  private _needed = true;
  private _tips: readonly number[] = [];
  private _at = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _disposed = false;
}
