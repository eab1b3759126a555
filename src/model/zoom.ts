import type { SeriesMessage } from '../api/schema';
import type { XAxis } from './shownaxis';
import { Line, ReplacedLine, SeriesStore } from './series';

/** A part of some metrics' lines: between two values of x, for a plot of this width in pixels. */
export interface SeriesPart {
  metrics: string[];
  start: number;
  end: number;
  width: number;
  x: XAxis;
}

export type FetchPart = (part: SeriesPart) => Promise<SeriesMessage>;

/** The whole lines, as the socket brings them. */
export interface WholeLines {
  readonly x: XAxis;
  readonly width: number;
  lines(metric: string): Line[];
}

// Who drags changes the limits in every frame.
const SETTLED_MS = 150;
// A part into which points still come is asked for again so often.
const AGAIN_MS = 1000;

interface Known {
  /** The newest x of the whole lines when it was asked for. */
  until: number;
  at: number;
}

/**
 * The lines of the part of a plot that is seen, as fine as the plot is wide. What the socket sends is decimated over the whole
 * run: of ten million points, a part of a thousandth would have one or two.
 */
export class Zoom {
  constructor(
    private readonly _whole: WholeLines,
    private readonly _fetch: FetchPart,
    private readonly _changed: () => void
  ) {}

  /** These limits of x are seen, of these metrics; null: all is. */
  look(limits: readonly [number, number] | null, metrics: readonly string[]): void {
    const stamp = limits === null ? '' : [...limits, this._whole.x, this._whole.width].join();
    if (stamp !== this._stamp) {
      this._stamp = stamp;
      this._limits = limits;
      this._store = new SeriesStore();
      this._known.clear();
      this._pending.clear();
      this._settled = performance.now() + SETTLED_MS;
    }
    this._metrics = metrics;
    if (limits === null) {
      clearTimeout(this._timer);
      this._timer = undefined;
    } else {
      this._timer ??= setTimeout(() => this._ask(), Math.max(0, this._settled - performance.now()));
    }
  }

  /** The lines of a metric in the part that is seen; null while the whole ones are all there is. */
  lines(metric: string): Line[] | null {
    return this._known.has(metric) ? this._store.lines(metric) : null;
  }

  replaced(metric: string): ReplacedLine[] | null {
    return this._known.has(metric) ? this._store.replaced(metric) : null;
  }

  dispose(): void {
    this.look(null, []);
  }

  private _ask(): void {
    this._timer = undefined;
    const now = performance.now();
    if (now < this._settled) {
      this.look(this._limits, this._metrics);
      return;
    }
    const due = this._metrics.filter(metric => this._isDue(metric, now));
    if (due.length === 0 || this._limits === null) {
      return;
    }
    const stamp = this._stamp;
    const [start, end] = this._limits;
    const asked = new Map(due.map(metric => [metric, { until: this._newest(metric), at: now }]));
    due.forEach(metric => this._pending.add(metric));
    const { x, width } = this._whole;
    this._fetch({ metrics: due, start, end, width, x }).then(
      message => {
        if (stamp === this._stamp) {
          message.frames.forEach(frame => this._store.apply(frame));
          asked.forEach((known, metric) => this._known.set(metric, known));
          due.forEach(metric => this._pending.delete(metric));
          this._changed();
        }
      },
      (error: unknown) => {
        // What is there stays, coarser; the next change of what is seen tries again.
        console.warn(`jupyter_dtf: a part of a plot did not come: ${String(error)}`);
      }
    );
  }

  private _isDue(metric: string, now: number): boolean {
    if (this._pending.has(metric)) {
      return false;
    }
    const known = this._known.get(metric);
    if (known) {
      return known.until < this._limits![1] && this._newest(metric) > known.until && now - known.at >= AGAIN_MS;
    }
    // The server leaves nothing out of lines that are shorter than this.
    return this._whole.lines(metric).some(line => line.x.length > this._whole.width / 4);
  }

  private _newest(metric: string): number {
    return this._whole.lines(metric).reduce((newest, { x }) => Math.max(newest, x[x.length - 1] ?? newest), -Infinity);
  }

  private _stamp = '';
  private _limits: readonly [number, number] | null = null;
  private _metrics: readonly string[] = [];
  private _settled = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _store = new SeriesStore();
  private readonly _known = new Map<string, Known>();
  private readonly _pending = new Set<string>();
}
