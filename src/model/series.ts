import type { SeriesFrame } from '../api/schema';

/** One decimated line, with x and y of equal length. The arrays are views that do not change when the line grows. */
export interface Line {
  metric: string;
  task: string;
  x: Float64Array;
  y: Float64Array;
  /** Increases with every change to the line. */
  version: number;
}

// Shared by all lines: a line is never mistaken for the one that it replaces.
let newest = 0;

class Column {
  append(start: number, values: (number | null)[]): void {
    const end = start + values.length;
    // Values that were handed out are never overwritten: a plot may still be reading them.
    if (start < this._handedOut || end > this._data.length) {
      const grown = new Float64Array(Math.max(64, 2 ** Math.ceil(Math.log2(end + 1))));
      grown.set(this._data.subarray(0, start));
      this._data = grown;
      this._handedOut = 0;
    }
    values.forEach((value, index) => (this._data[start + index] = value ?? NaN));
    this._size = end;
  }

  get size(): number {
    return this._size;
  }

  get view(): Float64Array {
    this._handedOut = Math.max(this._handedOut, this._size);
    return this._data.subarray(0, this._size);
  }

  get first(): number | undefined {
    return this._size > 0 ? this._data[0] : undefined;
  }

  get last(): number | undefined {
    return this._size > 0 ? this._data[this._size - 1] : undefined;
  }

  private _data = new Float64Array(64);
  private _size = 0;
  /** The number of values of `_data` that have been handed out as part of a view. */
  private _handedOut = 0;
}

/** The points of a task's attempt whose steps a later attempt has repeated. */
export interface ReplacedLine {
  /** The task and the attempt: `worker:1, attempt 1`. */
  name: string;
  task: string;
  x: Float64Array;
  y: Float64Array;
  version: number;
}

interface Columns {
  metric: string;
  task: string;
  of: string;
  x: Column;
  y: Column;
  version: number;
}

/** The decimated series of one run. */
export class SeriesStore {
  /**
   * Keep the first `start` points of the line and append those of the frame. Returns false if the frame does not
   * continue the line; the series must then be requested again.
   */
  apply(frame: SeriesFrame): boolean {
    const all = frame.replaced ? this._replaced : this._metrics;
    let tasks = all.get(frame.metric);
    let columns = tasks?.get(frame.task);
    if (frame.start > (columns?.x.size ?? 0) || frame.x.length !== frame.y.length) {
      return false;
    }
    if (!tasks) {
      tasks = new Map();
      all.set(frame.metric, tasks);
    }
    if (!columns) {
      columns = {
        metric: frame.metric,
        task: frame.task,
        of: frame.replaced,
        x: new Column(),
        y: new Column(),
        version: 0
      };
      tasks.set(frame.task, columns);
    }
    if (frame.start < columns.x.size / 2) {
      this._revision++;
    }
    columns.x.append(frame.start, frame.x);
    columns.y.append(frame.start, frame.y);
    columns.version = ++newest;
    return true;
  }

  clear(): void {
    this._metrics.clear();
    this._replaced.clear();
  }

  /** Increases when a line is sent again from its start, for example at another width, rather than continued. */
  get revision(): number {
    return this._revision;
  }

  /** The metrics received so far, in order of arrival. */
  get metrics(): string[] {
    return [...this._metrics.keys()];
  }

  /** The smallest and largest x of these metrics' lines; null if there are none. */
  xExtent(metrics: Iterable<string>): [number, number] | null {
    let low = Infinity;
    let high = -Infinity;
    for (const metric of metrics) {
      for (const { x } of this._metrics.get(metric)?.values() ?? []) {
        low = Math.min(low, x.first ?? low);
        high = Math.max(high, x.last ?? high);
      }
    }
    return low <= high ? [low, high] : null;
  }

  /** The newest x of each line of these metrics, also of those that were replaced; -Infinity without points. */
  tips(metrics: Iterable<string>): number[] {
    const tips: number[] = [];
    for (const metric of metrics) {
      for (const all of [this._metrics, this._replaced]) {
        all.get(metric)?.forEach(({ x }) => tips.push(x.last ?? -Infinity));
      }
    }
    return tips;
  }

  /** The lines of one metric. */
  lines(of: string): Line[] {
    return [...(this._metrics.get(of)?.values() ?? [])].map(({ metric, task, x, y, version }) => ({
      metric,
      task,
      x: x.view,
      y: y.view,
      version
    }));
  }

  /** The lines of one metric that later attempts have replaced. */
  replaced(of: string): ReplacedLine[] {
    return [...(this._replaced.get(of)?.values() ?? [])].map(({ task, of: whose, x, y, version }) => ({
      name: task,
      task: whose,
      x: x.view,
      y: y.view,
      version
    }));
  }

  private _revision = 0;
  private readonly _replaced = new Map<string, Map<string, Columns>>();
  /** Keyed by metric, then by task. */
  private readonly _metrics = new Map<string, Map<string, Columns>>();
}
