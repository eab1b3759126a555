import type { SeriesFrame } from '../api/schema';

/** One decimated line, x and y of equal length. The arrays are views that stay as they are while the line grows. */
export interface Line {
  metric: string;
  task: string;
  x: Float64Array;
  y: Float64Array;
  /** Grows with every change of the line. */
  version: number;
}

// Of all lines alike: one that takes the place of another is never taken for it.
let newest = 0;

class Column {
  append(start: number, values: (number | null)[]): void {
    const end = start + values.length;
    if (start < this._size || end > this._data.length) {
      // What was handed out is never written over: a plot may still be reading it.
      const grown = new Float64Array(Math.max(64, 2 ** Math.ceil(Math.log2(end + 1))));
      grown.set(this._data.subarray(0, start));
      this._data = grown;
    }
    values.forEach((value, index) => (this._data[start + index] = value ?? NaN));
    this._size = end;
  }

  get size(): number {
    return this._size;
  }

  get view(): Float64Array {
    return this._data.subarray(0, this._size);
  }

  private _data = new Float64Array(64);
  private _size = 0;
}

/** The points of an attempt of a task, of which a later attempt has done the steps again. */
export interface ReplacedLine {
  /** The task with the attempt: `worker:1, attempt 1`. */
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
   * Keep the first `start` points of the line and append the frame's. Returns false if the frame does not follow from
   * what is here; the series have then to be asked for anew.
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
    columns.x.append(frame.start, frame.x);
    columns.y.append(frame.start, frame.y);
    columns.version = ++newest;
    return true;
  }

  clear(): void {
    this._metrics.clear();
    this._replaced.clear();
  }

  /** The metrics that have come, in the order in which they first did. */
  get metrics(): string[] {
    return [...this._metrics.keys()];
  }

  /** From the first to the last x of the lines of these metrics; null where there are none. */
  xExtent(metrics: Iterable<string>): [number, number] | null {
    let low = Infinity;
    let high = -Infinity;
    for (const metric of metrics) {
      for (const { x } of this._metrics.get(metric)?.values() ?? []) {
        if (x.size > 0) {
          low = Math.min(low, x.view[0]!);
          high = Math.max(high, x.view[x.size - 1]!);
        }
      }
    }
    return low <= high ? [low, high] : null;
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

  /** What was done twice of one metric, as it was before. */
  replaced(of: string): ReplacedLine[] {
    return [...(this._replaced.get(of)?.values() ?? [])].map(({ task, of: whose, x, y, version }) => ({
      name: task,
      task: whose,
      x: x.view,
      y: y.view,
      version
    }));
  }

  private readonly _replaced = new Map<string, Map<string, Columns>>();
  /** By metric and then by task. */
  private readonly _metrics = new Map<string, Map<string, Columns>>();
}
