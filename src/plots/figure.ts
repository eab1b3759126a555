import { formatValue, isAmount } from '../model/format';
import type { ReplacedLine } from '../model/series';
import { axisText, colourAxes, setAxes } from './axes';
import { AxisMarks, Stretch, Tick } from './axismarks';
import { Band, bandOf } from './minmaxband';
import type { BokehApi, BokehDocument, Box, Figure, PlotView, Range } from './bokeh';
import { csvOf } from './csv';
import { drawingOf, pictureOf } from './figurefiles';
import { type Drawn, FigureLines } from './figurelines';
import type { FigureOptions } from './figureoptions';
import type { PlotLine } from './metricplots';
import type { Legend } from './legend';
import { drawable, empty, extent, indexAt, isWhole, padded, shifted, smooth, smoothed, within } from './lineprocessing';
import { type PlacedMark, PlacedMarks } from './placedmarks';
import type { PlotTheme } from './theme';

/** How the lines are drawn. */
export interface LineStyle {
  smoothing: number;
  colours: ReadonlyMap<string, string>;
  /** The origin of x. */
  origin: number;
  /** Axis units per unit of the lines' x. */
  scale?: number;
  /** Lines of other plots that are to share the same y range. */
  peers?: readonly Float64Array[];
}

/** The height of a figure, in pixels. */
export function figureHeight(small: boolean): number {
  return small ? 150 : 210;
}

// Lines with this few points are drawn with markers, since a single point would be invisible.
const FEW = 20;
// Space for the widest tick label and the axis label, so that the frame does not move when the numbers change.
const LEFT = 74;
// Maximum distance between a mark and the pointer, as a fraction of the plot's width.
const NEAR = 0.01;

/**
 * The Bokeh figure of one plot, in a document of its own: Bokeh traverses a whole document whenever one of its figures
 * is added or removed, so that hundreds of figures in one document would take minutes.
 */
export class MetricFigure {
  /** Whether the x range follows the data; off while the user looks at a part of their choice. */
  follow = true;
  /** Called when the user has chosen another range of x. */
  onLimits: ((start: number, end: number) => void) | null = null;
  /** Called when the user hides a task, or shows it alone. */
  onHide: ((task: string, alone: boolean) => void) | null = null;

  constructor(
    private readonly _bokeh: BokehApi,
    host: HTMLElement,
    private readonly _legend: Legend,
    private readonly _options: FigureOptions
  ) {
    this._x = new _bokeh.Range1d({ start: 0, end: 1 });
    this._y = new _bokeh.Range1d({ start: 0, end: 1 });
    this._figure = _bokeh.Plotting.figure({
      height: figureHeight(_options.small ?? false),
      sizing_mode: 'stretch_width',
      x_range: this._x,
      y_range: this._y,
      y_axis_type: _options.log ? 'log' : 'linear',
      tools: 'box_zoom,pan',
      active_drag: 'box_zoom',
      active_scroll: null,
      toolbar_location: null,
      output_backend: 'canvas',
      min_border_left: LEFT,
      min_border_right: _options.axis === 'wall' ? 24 : 8,
      min_border_top: 4,
      lod_threshold: null
    });
    setAxes(_bokeh, this._figure, _options);
    this._axisMarks = new AxisMarks(_bokeh, this._figure);
    this._placedMarks = new PlacedMarks(_bokeh, this._figure);
    this._lines = new FigureLines(_bokeh, this._figure, _legend, _options.log);
    this.setTheme(_options.theme);
    this._figure.on_event('rangesupdate', ({ x0, x1 }) => {
      this.follow = false;
      this._axisMarks.fold(this.limits, this._width);
      if (x0 !== undefined && x1 !== undefined) {
        this.onLimits?.(x0, x1);
      }
    });
    _legend.onPoint = task => this._lines.stress(task);
    _legend.onHide = (task, alone) => this.onHide?.(task, alone);
    this._document = new _bokeh.Document();
    // Bokeh creates a notifications view for each document, and keeps it after the document is cleared.
    this._document.config.setv({ notifications: null });
    this._host = host;
  }

  /** Insert the figure into the page. Its data should already be set; otherwise, the plot is drawn twice. */
  async show(): Promise<void> {
    this._document.add_root(this._figure);
    this._shown = this._bokeh.embed
      .add_document_standalone(this._document, this._host, [this._host])
      .then(views => void (this._view = views.get(this._figure)));
    await this._shown;
  }

  /** Release everything that Bokeh holds for the figure. */
  dispose(): void {
    const { documents } = this._bokeh;
    const clear = () => {
      this._document.clear();
      documents.splice(0, documents.length, ...documents.filter(other => other !== this._document));
      this._view = null;
    };
    // A view that is still being built would otherwise be kept for ever.
    void this._shown.then(clear, clear);
    this._legend.clear();
  }

  /** The plot's frame in pixels of its host; null before it is drawn. */
  get frame(): Box | null {
    return this._view?.frame.bbox ?? null;
  }

  get limits(): [number, number] {
    return [this._x.start, this._x.end];
  }

  /** Set whether dragging pans or selects a range. */
  setMoving(moves: boolean): void {
    this._figure.toolbar.tools[moves ? 1 : 0]!.setv({ active: true });
  }

  /** The plot without its legend as a bitmap, with the theme's background. */
  picture(): HTMLCanvasElement | null {
    return pictureOf(this._view, this._theme.ground);
  }

  /** The plot without its legend as an SVG. */
  drawing(): Promise<Blob | null> {
    return drawingOf(this._view, this._theme.ground);
  }

  /** The plot's data as CSV. */
  table(): string {
    const lines = this._shownLines().map(({ line, y }) => ({
      ...line,
      y,
      name: [this._options.names.y, this._legend.phaseName(line)].filter(part => part !== '').join(' ')
    }));
    return csvOf(lines, this._options.names.x);
  }

  setLimits(start: number, end: number): void {
    if (this._x.start !== start || this._x.end !== end) {
      this._x.setv({ start, end });
      this._axisMarks.fold(this.limits, this._width);
      this.fit();
    }
  }

  /** The tasks that have lines here; empty for a mean. */
  get tasks(): string[] {
    return [...new Set([...this._lines.drawn.values()].map(({ line }) => line.task))];
  }

  /** Set the tasks for which the others wait in every step, each with a sentence about it. */
  setSlow(slow: Readonly<Record<string, string>>): void {
    this._legend.setSlow(slow);
  }

  /** Hide exactly these tasks. */
  setHidden(hidden: ReadonlySet<string>): void {
    this._hidden = hidden;
    this._showOrHide();
    this.fit();
  }

  private _showOrHide(): void {
    this._lines.setHidden(this._hidden);
    this._legend.setHidden(this._hidden);
  }

  private _shownLines(): Drawn[] {
    return [...this._lines.drawn.values()].filter(({ line }) => !this._hidden.has(line.task));
  }

  /** Whether the figure shows a line that is not among these. */
  lacks(lines: readonly PlotLine[]): boolean {
    return [...this._lines.drawn.keys()].some(key => !lines.some(line => line.key === key));
  }

  /** Update the lines. */
  update(lines: readonly PlotLine[], style: LineStyle): void {
    const { smoothing, origin, scale = 1 } = style;
    this._peers = style.peers ?? [];
    let changed = false;
    for (const line of lines) {
      const drawn = this._lines.drawn.get(line.key) ?? this._lines.add(line, style.colours);
      const stamp = `${line.version}|${smoothing}|${origin}|${scale}`;
      if (drawn.stamp !== stamp) {
        changed = true;
        drawn.stamp = stamp;
        const shift = (from: Float64Array) => shifted(from, origin, scale);
        const x = shift(line.x);
        drawn.line = { ...line, x };
        const whole = isWhole(line);
        const dots = line.phase === 'epoch' || x.length <= FEW;
        drawn.y = smoothed(line, smoothing);
        drawn.source.data = { x, y: drawable(drawn.y, this._options.log) };
        if (line.parts) {
          const weight = whole ? 0 : smoothing;
          const parts = line.parts.map(part => ({ x: shift(part.x), y: smooth(part.y, weight) }));
          this._lines.showBand(drawn, bandOf(parts));
        }
        if (drawn.few || dots) {
          drawn.few ??= this._lines.addDots(drawn);
          drawn.few.data = dots ? drawn.source.data : empty();
        }
        if (drawn.raw || (smoothing > 0 && !whole)) {
          drawn.raw ??= this._lines.addRaw(drawn);
          drawn.raw.data = smoothing > 0 ? { x, y: drawable(line.y, this._options.log) } : empty();
        }
      }
    }
    if (changed) {
      if (this._hidden.size > 0) {
        this._showOrHide(); // lines that were just drawn for the first time
      }
      this.fit();
      this.showValues(null);
    }
  }

  /** Show the newest values without drawing the lines. Returns false if one is outside the y range. */
  showLatest(lines: readonly PlotLine[], { smoothing, origin, scale }: LineStyle): boolean {
    for (const line of lines) {
      const drawn = this._lines.drawn.get(line.key);
      if (!drawn) {
        return false;
      }
      if (drawn.line.version !== line.version) {
        drawn.line = { ...line, x: shifted(line.x, origin, scale) };
        drawn.y = smoothed(line, smoothing);
      }
      const newest = drawn.y.at(-1) ?? NaN;
      if (this.follow && (newest < this._y.start || newest > this._y.end)) {
        return false;
      }
    }
    this.showValues(null);
    return true;
  }

  /** Draw earlier values behind the lines, for steps that were executed twice. */
  showReplaced(lines: readonly ReplacedLine[], { origin, scale = 1, colours }: LineStyle): void {
    let changed = false;
    for (const line of lines) {
      const { name, task, x, y, version } = line;
      let known = this._lines.replaced.get(name);
      if (!known) {
        known = this._lines.addReplaced(line, colours);
        known.glyph.setv({ visible: !this._hidden.has(task) });
      }
      const stamp = `${version}|${origin}|${scale}`;
      if (known.stamp !== stamp) {
        changed = true;
        known.stamp = stamp;
        known.y = y;
        known.x = shifted(x, origin, scale);
        known.source.data = { x: known.x, y: drawable(y, this._options.log) };
      }
    }
    if (changed) {
      this.fit();
    }
  }

  /** Show each line's value at `x`, or its latest value. */
  showValues(x: number | null): void {
    for (const drawn of this._lines.drawn.values()) {
      const text = this._valueAt(drawn, x);
      if (drawn.shown !== text) {
        drawn.shown = text;
        // The text node itself: replacing it would create a layout object for each value.
        drawn.value.firstChild!.nodeValue = text;
      }
      const { band } = drawn;
      const limits = band ? this._limitsAt(band.area, x) : '';
      if (band && band.shown !== limits) {
        band.shown = limits;
        band.value.firstChild!.nodeValue = limits;
      }
    }
  }

  /** The values of the lines at `x`, as text. */
  read(x: number): string {
    const at = axisText(x, this._options.axis);
    const values = this._shownLines().map(drawn =>
      [drawn.line.task, this._legend.phaseName(drawn.line), this._valueAt(drawn, x)]
        .filter(part => part !== '')
        .join(' ')
    );
    return [at, ...values, ...this.markNear(x).split('\n')].filter(part => part !== '').join(', ');
  }

  private _valueAt({ line, y }: Drawn, x: number | null): string {
    const index = x === null ? y.length - 1 : indexAt(line.x, x);
    return index >= 0 ? formatValue(y[index]!, this._options.unit) : '–';
  }

  private _limitsAt({ x, low, high }: Band, at: number | null): string {
    const index = at === null ? x.length - 1 : indexAt(x, at);
    const { unit } = this._options;
    return index < 0 ? '–' : `${formatValue(low[index]!, unit)} – ${formatValue(high[index]!, unit)}`;
  }

  /** Show these marks; there are never fewer than before. */
  mark(marks: readonly PlacedMark[]): void {
    this._placedMarks.update(marks);
  }

  /** Show marks at the axis and in the background. */
  markAxis(ticks: readonly Tick[], stretches: readonly Stretch[]): void {
    this._axisMarks.update(ticks, stretches, this.limits, this._width);
  }

  private get _width(): number {
    return this.frame?.width ?? this._host.clientWidth - LEFT;
  }

  /** The text of the marks at or near `x`; empty if there are none. */
  markNear(x: number | null): string {
    if (x === null) {
      return '';
    }
    const near = NEAR * (this._x.end - this._x.start);
    const [from, to] = [x - near, x + near];
    return [...this._placedMarks.between(from, to), ...this._axisMarks.between(from, to)].join('\n');
  }

  setTheme(theme: PlotTheme): void {
    this._theme = theme;
    colourAxes(this._figure, theme);
    this._axisMarks.setColour(theme.text);
    this._lines.setColour(theme.text);
  }

  /** Fit the y range to the visible part of the lines, unless the user has chosen that range too. */
  fit(): void {
    if (!this.follow) {
      return;
    }
    const seen = (x: Float64Array, y: Float64Array) => within(x, y, this.limits);
    const drawn = this._shownLines().flatMap(({ line: { x }, y, band }) =>
      band ? [seen(x, y), seen(band.area.x, band.area.low), seen(band.area.x, band.area.high)] : [seen(x, y)]
    );
    const replaced = [...this._lines.replaced.values()]
      .filter(({ task }) => !this._hidden.has(task))
      .map(({ x, y }) => seen(x, y));
    const limits = extent([...drawn, ...replaced, ...this._peers], this._options.log);
    if (limits) {
      const [start, end] = padded(limits, this._options.log, isAmount(this._options.unit));
      if (start !== this._y.start || end !== this._y.end) {
        this._y.setv({ start, end });
      }
    }
  }

  private _hidden: ReadonlySet<string> = new Set();
  private _peers: readonly Float64Array[] = [];
  private _theme!: PlotTheme;
  private _view: PlotView | null = null;
  private _shown: Promise<void> = Promise.resolve();
  private readonly _host: HTMLElement;
  private readonly _document: BokehDocument;
  private readonly _figure: Figure;
  private readonly _axisMarks: AxisMarks;
  private readonly _placedMarks: PlacedMarks;
  private readonly _lines: FigureLines;
  private readonly _x: Range;
  private readonly _y: Range;
}
