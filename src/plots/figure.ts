import { formatDuration, formatNumber, formatValue, Unit } from '../model/format';
import type { XAxis } from '../model/run';
import type { BokehApi, Figure, Model, Range, Source } from './bokeh';
import type { PlotGroup, PlotLine } from './groups';
import { extent, indexAt, padded, smooth } from './lines';
import type { PlotTheme } from './theme';

/** How the lines are drawn. */
export interface LineStyle {
  smoothing: number;
  log: boolean;
  colours: ReadonlyMap<string, string>;
}

/** Words on a plot, translated by who makes it. */
export interface PlotWords {
  train: string;
  validation: string;
  mean: string;
}

const HEIGHT = 190;
// Room for the widest tick label, so that the frame stays where it is when the numbers change.
const LEFT = 58;

interface Drawn {
  source: Source;
  raw: Source | null;
  renderers: Model[];
  line: PlotLine;
  y: Float64Array;
  stamp: string;
  value: HTMLElement;
}

/** One plot in its card: a heading, what its lines are and their values, and the Bokeh figure. */
export class MetricFigure {
  readonly node = document.createElement('section');
  readonly canvas = document.createElement('div');
  readonly figure: Figure;
  /** Follow the data; off while the person looks at a part that they chose. */
  follow = true;

  constructor(
    private readonly _bokeh: BokehApi,
    readonly metric: string,
    readonly log: boolean,
    private readonly _unit: Unit,
    title: string,
    xRange: Range,
    axis: XAxis,
    private readonly _words: PlotWords
  ) {
    this._y = new _bokeh.Range1d({ start: 0, end: 1 });
    this.figure = _bokeh.Plotting.figure({
      height: HEIGHT,
      sizing_mode: 'stretch_width',
      x_range: xRange,
      y_range: this._y,
      y_axis_type: log ? 'log' : 'linear',
      tools: 'box_zoom,pan,wheel_zoom,reset,save',
      active_drag: 'box_zoom',
      active_scroll: null,
      toolbar_location: 'above',
      output_backend: 'canvas',
      min_border_left: LEFT,
      min_border_right: 8,
      min_border_top: 4,
      lod_threshold: null
    });
    (this.figure as unknown as { toolbar: Model }).toolbar.setv({ autohide: true, logo: null });
    this._format(axis);
    this.node.className = 'jp-dtf-plot';
    this.node.setAttribute('aria-label', title);
    const heading = document.createElement('h3');
    heading.textContent = title;
    this._legend.className = 'jp-dtf-plot-legend';
    const header = document.createElement('header');
    header.append(heading, this._legend);
    this.canvas.className = 'jp-dtf-plot-canvas';
    this.canvas.style.height = `${HEIGHT}px`;
    this.node.append(header, this.canvas);
  }

  /** Bring the lines to what the group says. */
  update(group: PlotGroup, style: LineStyle, origin: number, theme: PlotTheme): void {
    const keys = new Set(group.lines.map(line => line.key));
    for (const [key, drawn] of this._drawn) {
      if (!keys.has(key)) {
        drawn.renderers.forEach(renderer => renderer.setv({ visible: false }));
        drawn.value.parentElement?.remove();
        this._drawn.delete(key);
      }
    }
    const single = keys.size === 1;
    for (const line of group.lines) {
      const drawn = this._drawn.get(line.key) ?? this._add(line, style, theme, group);
      const stamp = `${line.version}|${style.smoothing}|${origin}`;
      if (drawn.stamp !== stamp) {
        drawn.stamp = stamp;
        const x = origin === 0 ? line.x : line.x.map(time => time - origin);
        drawn.line = { ...line, x };
        drawn.y = smooth(line.y, style.smoothing);
        drawn.source.data = { x, y: drawable(drawn.y, this.log) };
        if (drawn.raw) {
          drawn.raw.data =
            style.smoothing > 0
              ? { x, y: drawable(line.y, this.log) }
              : { x: new Float64Array(), y: new Float64Array() };
        }
      }
    }
    this._legend.classList.toggle('jp-mod-single', single);
    if (this.follow) {
      this._fit();
    }
    this.showValues(null);
  }

  /** Show each line's value at `x`, or its newest. */
  showValues(x: number | null): void {
    for (const { line, y, value } of this._drawn.values()) {
      const index = x === null ? y.length - 1 : indexAt(line.x, x);
      const text = index >= 0 ? formatValue(y[index]!, this._unit) : '–';
      if (value.textContent !== text) {
        value.textContent = text;
      }
    }
  }

  /** From the first to the last x of all lines, or null. */
  xExtent(): [number, number] | null {
    let low = Infinity;
    let high = -Infinity;
    for (const { line } of this._drawn.values()) {
      if (line.x.length > 0) {
        low = Math.min(low, line.x[0]!);
        high = Math.max(high, line.x[line.x.length - 1]!);
      }
    }
    return low <= high ? [low, high] : null;
  }

  setTheme(theme: PlotTheme): void {
    this.figure.setv({ background_fill_color: null, border_fill_color: null, outline_line_color: theme.faint });
    for (const axis of [...this.figure.xaxes, ...this.figure.yaxes]) {
      axis.setv({
        axis_line_color: null,
        major_tick_line_color: theme.faint,
        minor_tick_line_color: null,
        major_label_text_color: theme.text,
        major_label_text_font: theme.font,
        major_label_text_font_size: theme.fontSize
      });
    }
    for (const grid of [...this.figure.xgrids, ...this.figure.ygrids]) {
      grid.setv({ grid_line_color: theme.faint, grid_line_alpha: 0.6 });
    }
    for (const { line, renderers } of this._drawn.values()) {
      if (line.task === '') {
        renderers.forEach(renderer => setColour(renderer, theme.text));
      }
    }
  }

  private _add(line: PlotLine, style: LineStyle, theme: PlotTheme, group: PlotGroup): Drawn {
    const colour = style.colours.get(line.task) ?? theme.text;
    const empty = () => ({ x: new Float64Array(), y: new Float64Array() });
    const source = new this._bokeh.ColumnDataSource({ data: empty() });
    const raw = line.validation ? null : new this._bokeh.ColumnDataSource({ data: empty() });
    const draw = (data: Source, alpha: number, width: number) =>
      this.figure.line({
        x: { field: 'x' },
        y: { field: 'y' },
        source: data,
        line_color: colour,
        line_alpha: alpha,
        line_width: width,
        line_dash: line.validation ? [6, 3] : 'solid',
        line_join: 'round'
      });
    const renderers = raw ? [draw(raw, 0.25, 1), draw(source, 1, 1.5)] : [draw(source, 1, 1.5)];
    const value = this._addLegend(line, colour, group);
    const drawn = { source, raw, renderers, line, y: line.y, stamp: '', value };
    this._drawn.set(line.key, drawn);
    return drawn;
  }

  private _addLegend(line: PlotLine, colour: string, group: PlotGroup): HTMLElement {
    const item = document.createElement('span');
    item.className = 'jp-dtf-plot-key';
    const swatch = document.createElement('span');
    swatch.className = `jp-dtf-plot-swatch${line.validation ? ' jp-mod-dashed' : ''}`;
    swatch.style.color = line.task === '' ? 'var(--jp-ui-font-color1)' : colour;
    const hasBoth = group.lines.some(other => other.validation) || line.validation;
    const phase = line.validation ? this._words.validation : this._words.train;
    const who = line.task === '' ? this._words.mean : line.task;
    const name = document.createElement('span');
    name.className = 'jp-dtf-plot-name';
    name.textContent = hasBoth ? `${who} ${phase}` : who;
    const value = document.createElement('span');
    value.className = 'jp-dtf-plot-value';
    item.append(swatch, name, value);
    this._legend.append(item);
    return value;
  }

  private _fit(): void {
    const limits = extent(
      [...this._drawn.values()].map(drawn => drawn.y),
      this.log
    );
    if (limits) {
      const [start, end] = padded(limits, this.log);
      if (start !== this._y.start || end !== this._y.end) {
        this._y.setv({ start, end });
      }
    }
  }

  private _format(axis: XAxis): void {
    const formatter = (format: (tick: number) => string) => {
      const made = new this._bokeh.BasicTickFormatter();
      made.doFormat = ticks => ticks.map(format);
      return made;
    };
    const [xAxis, yAxis] = [this.figure.xaxes[0]!, this.figure.yaxes[0]!];
    xAxis.setv({ formatter: formatter(axis === 'time' ? formatDuration : formatNumber) });
    if (axis === 'time') {
      const ticker = new this._bokeh.AdaptiveTicker({
        base: 60,
        mantissas: [1, 2, 5, 10, 15, 20, 30],
        min_interval: 1,
        num_minor_ticks: 0
      });
      xAxis.setv({ ticker });
      this.figure.xgrids[0]?.setv({ ticker });
    }
    yAxis.setv({ formatter: formatter(tick => formatValue(tick, this._unit)) });
    if (this._unit === 'bytes' && !this.log) {
      const ticker = new this._bokeh.AdaptiveTicker({
        base: 1024,
        mantissas: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
        num_minor_ticks: 0
      });
      yAxis.setv({ ticker });
      this.figure.ygrids[0]?.setv({ ticker });
    }
  }

  private readonly _y: Range;
  private readonly _legend = document.createElement('div');
  private readonly _drawn = new Map<string, Drawn>();
}

function setColour(renderer: Model, colour: string): void {
  (renderer as unknown as { glyph: Model }).glyph.setv({ line_color: colour });
}

/** A logarithmic axis has no place for zero and below: a gap. */
function drawable(y: Float64Array, log: boolean): Float64Array {
  return log ? y.map(value => (value > 0 ? value : NaN)) : y;
}
