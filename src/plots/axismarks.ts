import type { BokehApi, Figure, Model, Source } from './bokeh';

/** A point on the axis marked by a tick; there may be many. */
export interface Tick {
  x: number;
  step: number;
  label: string;
}

/** A highlighted interval of the axis. */
export interface Stretch {
  start: number;
  end: number;
  label: string;
}

/** Ticks that are merged into one. */
export interface Fold {
  start: number;
  end: number;
  label: string;
}

// Ticks closer than this are merged, in pixels.
const GAP_PX = 6;
// Height of the ticks and of the line that joins merged ones, as a fraction of the plot's height.
const HEIGHT = 0.045;
const JOINED = 0.01;
const STRENGTH = 0.7;
const GROUND = 0.09;
// A second y axis, from 0 to 1 regardless of the lines.
const RANGE = 'marks';

/** Merge ticks closer than `gap`; `ticks` are sorted by x. */
export function folded(ticks: readonly Tick[], gap: number): Fold[] {
  const found: (Fold & { first: number; count: number })[] = [];
  for (const { x, step, label } of ticks) {
    const last = found[found.length - 1];
    if (last && x - last.end < gap) {
      last.end = x;
      last.count += 1;
      last.label = `${last.count} checkpoints, of steps ${last.first} to ${step}`;
    } else {
      found.push({ start: x, end: x, label, first: step, count: 1 });
    }
  }
  return found.map(({ start, end, label }) => ({ start, end, label }));
}

/**
 * The ticks and highlighted intervals of a figure, drawn at the axis and in the background, so that they do not cross
 * the lines.
 */
export class AxisMarks {
  constructor(
    private readonly _bokeh: BokehApi,
    private readonly _figure: Figure
  ) {}

  /**
   * Show these marks; there are never fewer than before. `width`: of the plot, in pixels; `limits`: the visible range
   * of x.
   */
  update(ticks: readonly Tick[], stretches: readonly Stretch[], limits: [number, number], width: number): void {
    this._ticks = ticks;
    this._stretches = stretches;
    stretches.forEach(({ start, end }, index) => {
      this._boxes[index] ??= this._addBox();
      this._boxes[index].setv({ left: start, right: end });
    });
    this.fold(limits, width);
  }

  /** Update the merging after the visible range of x has changed. */
  fold([start, end]: [number, number], width: number): void {
    if (this._ticks.length === 0) {
      return;
    }
    this._folds = folded(this._ticks, (GAP_PX * (end - start)) / Math.max(width, 1));
    const stamp = JSON.stringify(this._folds);
    if (this._stamp !== stamp) {
      this._stamp = stamp;
      this._source ??= this._addTicks();
      this._source.data = segments(this._folds);
    }
  }

  /** The labels of the marks in a range, one line each. */
  between(start: number, end: number): string[] {
    return [...this._folds, ...this._stretches]
      .filter(mark => mark.start <= end && mark.end >= start)
      .map(mark => mark.label);
  }

  setColour(colour: string): void {
    this._colour = colour;
    this._segments?.setv({ line_color: colour });
    this._boxes.forEach(box => box.setv({ fill_color: colour }));
  }

  private _addTicks(): Source {
    const { Range1d, LinearScale, ColumnDataSource } = this._bokeh;
    this._figure.setv({
      extra_y_ranges: { [RANGE]: new Range1d({ start: 0, end: 1 }) },
      extra_y_scales: { [RANGE]: new LinearScale() } // even if the lines' axis is logarithmic
    });
    const source = new ColumnDataSource({ data: segments([]) });
    const renderer = this._figure.segment({
      x0: { field: 'x0' },
      y0: { field: 'y0' },
      x1: { field: 'x1' },
      y1: { field: 'y1' },
      source,
      y_range_name: RANGE,
      line_color: this._colour,
      line_alpha: STRENGTH,
      line_width: 2
    });
    this._segments = renderer.glyph;
    return source;
  }

  private _addBox(): Model {
    const box = new this._bokeh.BoxAnnotation({
      fill_color: this._colour,
      fill_alpha: GROUND,
      line_color: null,
      level: 'underlay'
    });
    this._figure.add_layout(box);
    return box;
  }

  private _colour = '';
  private _ticks: readonly Tick[] = [];
  private _stretches: readonly Stretch[] = [];
  private _folds: readonly Fold[] = [];
  private _stamp = '';
  private _source: Source | null = null;
  private _segments: Model | null = null;
  private readonly _boxes: Model[] = [];
}

/** One vertical line for a tick, two joined lines for several merged ones. */
function segments(folds: readonly Fold[]): Record<string, Float64Array> {
  const lines: [number, number, number, number][] = [];
  for (const { start, end } of folds) {
    lines.push([start, 0, start, HEIGHT]);
    if (end > start) {
      lines.push([end, 0, end, HEIGHT], [start, JOINED, end, JOINED]);
    }
  }
  const column = (index: number) => Float64Array.from(lines, line => line[index]!);
  return { x0: column(0), y0: column(1), x1: column(2), y1: column(3) };
}
