import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import type { Unit } from '../model/format';
import type { RunModel, XAxis } from '../model/run';
import { BokehApi, BokehDocument, loadBokeh, Model, Range } from './bokeh';
import { MetricFigure, PlotWords } from './figure';
import { groupLines, MACHINE_METRICS, matches, TaskMode } from './groups';
import { taskColours } from './palette';
import { PlotTheme, readTheme } from './theme';

const FRAME_MS = 17;

/** What the person chose to see. */
export interface GridOptions {
  tasks: TaskMode;
  /** Weight of the past, 0 to below 1. */
  smoothing: number;
  log: boolean;
  filter: string;
  /** Metrics of the machines instead of those of the model. */
  machines: boolean;
  /** At most this many updates a second. */
  rate: number;
}

/** One figure per metric, in a grid as wide as its host; all of them are brought up to date in one animation frame. */
export class PlotGrid implements IDisposable {
  /** Load BokehJS, if that has not been done, and draw into `host`. */
  static async create(
    host: HTMLElement,
    run: RunModel,
    options: GridOptions,
    words: PlotWords,
    themeChanged: ISignal<unknown, unknown> | null
  ): Promise<PlotGrid> {
    return new PlotGrid(await loadBokeh(), host, run, options, words, themeChanged);
  }

  private constructor(
    private readonly _bokeh: BokehApi,
    private readonly _host: HTMLElement,
    private readonly _run: RunModel,
    private _options: GridOptions,
    private readonly _words: PlotWords,
    private readonly _themeChanged: ISignal<unknown, unknown> | null
  ) {
    this._theme = readTheme(_host);
    this._document = new _bokeh.Document();
    this._x = new _bokeh.Range1d({ start: 0, end: 1 });
    this._crosshair = new _bokeh.Span({ dimension: 'height', level: 'overlay', line_width: 1, visible: false });
    this._xAxis = _run.x;
    void _bokeh.embed.add_document_standalone(this._document, _host, this._roots);
    this._resize = new ResizeObserver(() => this._measure());
    this._resize.observe(_host);
    // Not drawn while out of sight; this says when it comes back.
    this._sight = new IntersectionObserver(() => this.schedule());
    this._sight.observe(_host);
    _run.seriesChanged.connect(this.schedule, this);
    _run.storyChanged.connect(this.schedule, this);
    _themeChanged?.connect(this._onTheme, this);
    this._measure();
    this.schedule();
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** How many plots there are. */
  get count(): number {
    return this._figures.size;
  }

  setOptions(options: GridOptions): void {
    const redraw = options.log !== this._options.log || options.tasks !== this._options.tasks;
    this._options = options;
    if (redraw) {
      this._clear();
    }
    this.schedule();
  }

  /** Draw in the next frame that the update rate allows. */
  schedule(): void {
    if (this._disposed || this._timer !== undefined || this._frame !== 0) {
      return;
    }
    // What is due within a frame is drawn now: the server's messages come as often as this, and would all wait for it.
    const wait = Math.max(0, this._drawn + 1000 / this._options.rate - FRAME_MS - performance.now());
    this._timer = setTimeout(() => {
      this._timer = undefined;
      this._frame = requestAnimationFrame(() => {
        this._frame = 0;
        this._draw();
      });
    }, wait);
  }

  dispose(): void {
    if (this._disposed) {
      return;
    }
    this._disposed = true;
    clearTimeout(this._timer);
    cancelAnimationFrame(this._frame);
    this._run.seriesChanged.disconnect(this.schedule, this);
    this._run.storyChanged.disconnect(this.schedule, this);
    this._themeChanged?.disconnect(this._onTheme, this);
    this._resize.disconnect();
    this._sight.disconnect();
    this._clear();
    this._document.clear();
  }

  private _draw(): void {
    if (this._host.clientWidth === 0 || document.hidden) {
      return;
    }
    this._drawn = performance.now();
    if (this._run.x !== this._xAxis) {
      this._xAxis = this._run.x;
      this._clear();
    }
    const { tasks, machines, filter, smoothing, log } = this._options;
    const lines = this._run.lines().filter(line => MACHINE_METRICS.has(line.metric) === machines);
    const groups = groupLines(lines, tasks).filter(group => matches(group.metric, filter));
    if (groups.some(group => this._figures.get(group.metric)?.lacks(group))) {
      this._clear(); // a mean took the place of one task's line
    }
    this._arrange(groups.map(group => group.metric));
    const origin = this._xAxis === 'time' ? this._run.origin : 0;
    const colours = taskColours(this._run.info.tasks.map(task => task.task));
    for (const group of groups) {
      const figure = this._figures.get(group.metric) ?? this._add(group.metric, group.title, group.unit);
      figure.update(group, { smoothing, log, colours }, origin, this._theme);
    }
    this._arrange(groups.map(group => group.metric));
    this._fitX();
    this._mark(colours);
  }

  private _add(metric: string, title: string, unit: Unit): MetricFigure {
    const figure = new MetricFigure(
      this._bokeh,
      metric,
      this._options.log,
      unit,
      title,
      this._x,
      // The step of a machine's metrics is the second of the task's life.
      this._options.machines ? 'time' : this._xAxis,
      this._words
    );
    figure.setTheme(this._theme);
    figure.figure.add_layout(this._crosshair);
    this._marks.forEach(mark => figure.figure.add_layout(mark));
    figure.figure.on_event('mousemove', event => this._point(event.x ?? null));
    figure.figure.on_event('mouseleave', () => this._point(null));
    figure.figure.on_event('rangesupdate', () => {
      figure.follow = false;
      this._follow = false;
    });
    figure.figure.on_event('reset', () => queueMicrotask(() => this._followAll()));
    this._figures.set(metric, figure);
    this._host.append(figure.node);
    this._roots.push(figure.canvas);
    this._document.add_root(figure.figure);
    return figure;
  }

  /** Take out what is no longer shown, and put the rest in order. */
  private _arrange(metrics: string[]): void {
    for (const figure of [...this._figures.values()]) {
      if (!metrics.includes(figure.metric)) {
        this._remove(figure);
      }
    }
    metrics.forEach((metric, index) => {
      const node = this._figures.get(metric)?.node;
      if (node && this._host.children[index] !== node) {
        this._host.insertBefore(node, this._host.children[index] ?? null);
      }
    });
  }

  private _remove(figure: MetricFigure): void {
    this._figures.delete(figure.metric);
    this._document.remove_root(figure.figure);
    this._roots.splice(this._roots.indexOf(figure.canvas), 1);
    figure.node.remove();
  }

  private _clear(): void {
    [...this._figures.values()].forEach(figure => this._remove(figure));
    this._marks = [];
    this._follow = true;
  }

  private _fitX(): void {
    if (!this._follow) {
      return;
    }
    let low = Infinity;
    let high = -Infinity;
    for (const figure of this._figures.values()) {
      const extent = figure.xExtent();
      if (extent) {
        low = Math.min(low, extent[0]);
        high = Math.max(high, extent[1]);
      }
    }
    if (low > high) {
      return;
    }
    const end = high > low ? high : low + 1;
    if (this._x.start !== low || this._x.end !== end) {
      this._x.setv({ start: low, end });
    }
  }

  private _followAll(): void {
    this._follow = true;
    this._figures.forEach(figure => (figure.follow = true));
    this.schedule();
  }

  private _mark(colours: ReadonlyMap<string, string>): void {
    this._run.marks.forEach((mark, index) => {
      const location = this._run.markX(mark);
      let span = this._marks[index];
      if (!span) {
        span = new this._bokeh.Span({ dimension: 'height', line_dash: [4, 4], line_width: 1.5 });
        this._marks[index] = span;
        this._figures.forEach(figure => figure.figure.add_layout(span!));
      }
      span.setv({ location, visible: location !== null, line_color: colours.get(mark.task) ?? this._theme.error });
    });
  }

  private _point(x: number | null): void {
    this._crosshair.setv({ location: x, visible: x !== null, line_color: this._theme.text, line_alpha: 0.5 });
    this._figures.forEach(figure => figure.showValues(x));
  }

  private _measure(): void {
    const width = this._host.clientWidth;
    if (width > 0) {
      // A plot is never wider than its host, and rarely wider than half of it.
      this._run.needWidth(Math.min(width, 1200));
      this.schedule();
    }
  }

  private _onTheme(): void {
    this._theme = readTheme(this._host);
    this._figures.forEach(figure => figure.setTheme(this._theme));
    this.schedule();
  }

  private _theme: PlotTheme;
  private _xAxis: XAxis;
  private _follow = true;
  private _disposed = false;
  private _drawn = 0;
  private _frame = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _marks: Model[] = [];
  private readonly _document: BokehDocument;
  private readonly _x: Range;
  private readonly _crosshair: Model;
  private readonly _roots: HTMLElement[] = [];
  private readonly _figures = new Map<string, MetricFigure>();
  private readonly _resize: ResizeObserver;
  private readonly _sight: IntersectionObserver;
}
