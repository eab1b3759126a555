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

interface Columns {
  metric: string;
  task: string;
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
    let tasks = this._metrics.get(frame.metric);
    let columns = tasks?.get(frame.task);
    if (frame.start > (columns?.x.size ?? 0) || frame.x.length !== frame.y.length) {
      return false;
    }
    if (!tasks) {
      tasks = new Map();
      this._metrics.set(frame.metric, tasks);
    }
    if (!columns) {
      columns = { metric: frame.metric, task: frame.task, x: new Column(), y: new Column(), version: 0 };
      tasks.set(frame.task, columns);
    }
    columns.x.append(frame.start, frame.x);
    columns.y.append(frame.start, frame.y);
    columns.version = ++this._version;
    return true;
  }

  clear(): void {
    this._metrics.clear();
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

  private _version = 0;
  /** By metric and then by task. */
  private readonly _metrics = new Map<string, Map<string, Columns>>();
}
