import type { SeriesMessage } from '../api/schema';
import { backoff } from '../api/socket';
import type { XAxis } from './shownaxis';
import { Line, ReplacedLine, SeriesStore } from './series';

/** A range of some metrics' lines: between two values of x, for a plot of this width in pixels. */
export interface SeriesPart {
  metrics: string[];
  start: number;
  end: number;
  width: number;
  x: XAxis;
}

export type FetchPart = (part: SeriesPart) => Promise<SeriesMessage>;

/** The complete lines, as received over the socket. */
export interface WholeLines {
  readonly x: XAxis;
  readonly width: number;
  lines(metric: string): Line[];
}

// Delay before a request: while the user drags, the limits change in every frame.
const SETTLED_MS = 150;
// Interval at which a part that still receives points is fetched again.
const AGAIN_MS = 1000;

interface Known {
  /** The newest x of the complete lines at the time of the request. */
  until: number;
  at: number;
}

/**
 * The lines of a plot's visible part, at the plot's resolution. The socket sends lines decimated over the whole run:
 * out of ten million points, a thousandth of the range would get only one or two.
 */
export class Zoom {
  constructor(
    private readonly _whole: WholeLines,
    private readonly _fetch: FetchPart,
    private readonly _changed: () => void
  ) {}

  /** Set the visible limits of x and the metrics shown; null: the whole range. */
  look(limits: readonly [number, number] | null, metrics: readonly string[]): void {
    const stamp = limits === null ? '' : [...limits, this._whole.x, this._whole.width].join();
    if (stamp !== this._stamp) {
      this._stamp = stamp;
      this._limits = limits;
      this._store = new SeriesStore();
      this._known.clear();
      this._pending.clear();
      this._failures = 0;
      this._earliest = performance.now() + SETTLED_MS;
    }
    this._metrics = metrics;
    if (limits === null) {
      clearTimeout(this._timer);
      this._timer = undefined;
    } else {
      this._timer ??= setTimeout(() => this._ask(), Math.max(0, this._earliest - performance.now()));
    }
  }

  /** The lines of a metric in the visible part; null if only the complete ones are available. */
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
    if (now < this._earliest) {
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
          this._failures = 0;
          this._changed();
        }
      },
      (error: unknown) => {
        console.warn(`jupyter_dtf: a part of a plot could not be loaded: ${String(error)}`);
        if (stamp === this._stamp) {
          // The lines stay as they are until a later request succeeds.
          due.forEach(metric => this._pending.delete(metric));
          this._earliest = performance.now() + backoff(this._failures);
          this._failures += 1;
          this.look(this._limits, this._metrics);
        }
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
    // The server does not decimate lines that are shorter than this.
    return this._whole.lines(metric).some(line => line.x.length > this._whole.width / 4);
  }

  private _newest(metric: string): number {
    return this._whole.lines(metric).reduce((newest, { x }) => Math.max(newest, x[x.length - 1] ?? newest), -Infinity);
  }

  private _stamp = '';
  private _limits: readonly [number, number] | null = null;
  private _metrics: readonly string[] = [];
  /** When the next request may be sent: the limits must have settled, and a failure is followed by a pause. */
  private _earliest = 0;
  private _failures = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _store = new SeriesStore();
  private readonly _known = new Map<string, Known>();
  private readonly _pending = new Set<string>();
}
