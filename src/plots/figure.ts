import { formatDuration, formatTicks, formatValue, Unit } from '../model/format';
import type { XAxis } from '../model/run';
import type { BokehApi, Figure, GlyphRenderer, Range, Source } from './bokeh';
import { compareTasks, PlotGroup, PlotLine } from './groups';
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
// A line of so few points is drawn with them, or one point could not be seen.
const FEW = 20;
// Room for the widest tick label, so that the frame stays where it is when the numbers change.
const LEFT = 58;

// Bokeh's own is white, whatever the theme. JupyterLab's variables reach into its shadow tree.
const TOOLBAR_STYLE = `:host(.bk-inner) {
  background-color: var(--jp-layout-color1);
  --icon-color: var(--jp-ui-font-color2);
  --button-color: var(--jp-border-color1);
}`;

interface Drawn {
  source: Source;
  raw: Source | null;
  few: Source;
  renderers: GlyphRenderer[];
  dots: GlyphRenderer;
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
      toolbar_inner: true,
      output_backend: 'canvas',
      min_border_left: LEFT,
      min_border_right: 8,
      min_border_top: 4,
      lod_threshold: null
    });
    this.figure.toolbar.setv({ autohide: true, logo: null, stylesheets: [TOOLBAR_STYLE] });
    this._format(axis);
    this.node.className = 'jp-dtf-plot';
    this.node.setAttribute('aria-label', title);
    const heading = document.createElement('h3');
    heading.textContent = title;
    this._legend.className = 'jp-dtf-plot-legend';
    this.canvas.className = 'jp-dtf-plot-canvas';
    this.canvas.style.height = `${HEIGHT}px`;
    this.node.append(heading, this._legend, this.canvas);
  }

  /** Whether a line is drawn here that the group has no more. */
  lacks(group: PlotGroup): boolean {
    return [...this._drawn.keys()].some(key => !group.lines.some(line => line.key === key));
  }

  /** Bring the lines to what the group says. */
  update(group: PlotGroup, style: LineStyle, origin: number, theme: PlotTheme): void {
    for (const line of group.lines) {
      const drawn = this._drawn.get(line.key) ?? this._add(line, style, theme);
      const stamp = `${line.version}|${style.smoothing}|${origin}`;
      if (drawn.stamp !== stamp) {
        drawn.stamp = stamp;
        const x = origin === 0 ? line.x : line.x.map(time => time - origin);
        drawn.line = { ...line, x };
        // Validation is a mean over a whole set already, and has few points: smoothing would only delay it.
        drawn.y = line.validation ? line.y : smooth(line.y, style.smoothing);
        drawn.source.data = { x, y: drawable(drawn.y, this.log) };
        drawn.few.data = x.length <= FEW ? drawn.source.data : empty();
        if (drawn.raw) {
          drawn.raw.data = style.smoothing > 0 ? { x, y: drawable(line.y, this.log) } : empty();
        }
      }
    }
    this._legend.classList.toggle('jp-mod-single', this._keys.size === 1);
    this._legend.classList.toggle('jp-mod-plain', this._drawn.size === 1);
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
    for (const { line, renderers, dots } of this._drawn.values()) {
      if (line.task === '') {
        renderers.forEach(({ glyph }) => glyph.setv({ line_color: theme.text }));
        dots.glyph.setv({ line_color: theme.text, fill_color: theme.text });
      }
    }
  }

  private _add(line: PlotLine, style: LineStyle, theme: PlotTheme): Drawn {
    const colour = style.colours.get(line.task) ?? theme.text;
    const source = new this._bokeh.ColumnDataSource({ data: empty() });
    const raw = line.validation ? null : new this._bokeh.ColumnDataSource({ data: empty() });
    const few = new this._bokeh.ColumnDataSource({ data: empty() });
    const at = { x: { field: 'x' }, y: { field: 'y' } };
    const draw = (data: Source, alpha: number, width: number) =>
      this.figure.line({
        ...at,
        source: data,
        line_color: colour,
        line_alpha: alpha,
        line_width: width,
        line_dash: line.validation ? [6, 3] : 'solid',
        line_join: 'round'
      });
    const renderers = raw ? [draw(raw, 0.25, 1), draw(source, 1, 1.5)] : [draw(source, 1, 1.5)];
    const dots = this.figure.scatter({ ...at, source: few, size: 4, line_color: colour, fill_color: colour });
    const value = this._addKey(line, colour);
    const drawn = { source, raw, few, renderers, dots, line, y: line.y, stamp: '', value };
    this._drawn.set(line.key, drawn);
    return drawn;
  }

  /** Say in the legend what the line is; returns where its value goes. A task has one entry for both its lines. */
  private _addKey(line: PlotLine, colour: string): HTMLElement {
    let entry = this._keys.get(line.task);
    if (!entry) {
      entry = span('jp-dtf-plot-key');
      entry.append(span('jp-dtf-plot-name', line.task === '' ? this._words.mean : line.task));
      entry.style.color = line.task === '' ? 'var(--jp-ui-font-color1)' : colour;
      // In the order of the tasks, whichever spoke first.
      const following = [...this._keys].filter(([task]) => compareTasks(task, line.task) > 0);
      following.sort(([a], [b]) => compareTasks(a, b));
      this._legend.insertBefore(entry, following[0]?.[1] ?? null);
      this._keys.set(line.task, entry);
    }
    const value = span('jp-dtf-plot-value');
    entry.append(
      span(`jp-dtf-plot-swatch${line.validation ? ' jp-mod-dashed' : ''}`),
      span('jp-dtf-plot-phase', line.validation ? this._words.validation : this._words.train),
      value
    );
    return value;
  }

  private _fit(): void {
    const limits = extent(
      [...this._drawn.values()].map(drawn => drawn.y),
      this.log
    );
    if (limits) {
      const [start, end] = padded(limits, this.log, this._unit === 'bytes' || this._unit === 'cores');
      if (start !== this._y.start || end !== this._y.end) {
        this._y.setv({ start, end });
      }
    }
  }

  private _format(axis: XAxis): void {
    const formatter = (format: (ticks: number[]) => string[]) => {
      const made = new this._bokeh.BasicTickFormatter();
      made.doFormat = format;
      return made;
    };
    const [xAxis, yAxis] = [this.figure.xaxes[0]!, this.figure.yaxes[0]!];
    xAxis.setv({
      formatter: formatter(axis === 'time' ? ticks => ticks.map(formatDuration) : ticks => formatTicks(ticks, 'number'))
    });
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
    yAxis.ticker.setv({ desired_num_ticks: 5 });
    yAxis.setv({ formatter: formatter(ticks => formatTicks(ticks, this._unit)) });
    if (this._unit === 'bytes' && !this.log) {
      const ticker = new this._bokeh.AdaptiveTicker({
        base: 1024,
        mantissas: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
        num_minor_ticks: 0,
        desired_num_ticks: 5
      });
      yAxis.setv({ ticker });
      this.figure.ygrids[0]?.setv({ ticker });
    }
  }

  private readonly _y: Range;
  private readonly _legend = document.createElement('div');
  private readonly _drawn = new Map<string, Drawn>();
  private readonly _keys = new Map<string, HTMLElement>();
}

function empty(): { x: Float64Array; y: Float64Array } {
  return { x: new Float64Array(), y: new Float64Array() };
}

function span(className: string, text = ''): HTMLElement {
  const element = document.createElement('span');
  element.className = className;
  element.textContent = text;
  return element;
}

/** A logarithmic axis has no place for zero and below: a gap. */
function drawable(y: Float64Array, log: boolean): Float64Array {
  return log ? y.map(value => (value > 0 ? value : NaN)) : y;
}
