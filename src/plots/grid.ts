import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import { metricTitle } from '../model/format';
import type { PlotChoices } from '../model/plotchoices';
import type { ShownAxis } from '../model/shownaxis';
import type { ReplacedLine } from '../model/series';
import { type BokehApi, loadBokeh } from './bokeh';
import type { Stretch } from './axismarks';
import { PlotCard } from './plotcard';
import { openByDefault, replacePlots } from './plotarrangement';
import type { LineStyle, MetricFigure } from './figure';
import type { PlacedMark } from './placedmarks';
import { FigureMaker } from './figuremaker';
import { filterOf } from './plotfilter';
import { Plot, plotLines, PlotLine, replacedLines, splitPlot, TaskMode } from './metricplots';
import type { PlotWords } from './legend';
import { RedrawPace } from './redrawpace';
import { SharedCrosshair } from './sharedcrosshair';
import { Sections } from './plotsections';
import { ViewportObserver } from './viewportobserver';
import type { PlotSource } from './plotsource';
import { PlotTheme, readTheme } from './theme';

const FRAME_MS = 17;
// The interval at which to look whether new points are visible, if the last ones were not.
const DEFERRING_MS = 250;

/** The user's settings. */
export interface GridOptions {
  tasks: TaskMode;
  /** Weight of past values, 0 to below 1. */
  smoothing: number;
  log: boolean;
  filter: string;
  /** Maximum number of updates per second. */
  rate: number;
}

/** The parts with which a plot grid is created. */
export interface GridParts {
  host: HTMLElement;
  source: PlotSource;
  choices: PlotChoices;
  words: PlotWords;
  themeChanged: ISignal<unknown, unknown> | null;
  /** Called when BokehJS could not be loaded or failed. */
  onProblem: (error: unknown) => void;
  load?: () => Promise<BokehApi>;
}

/**
 * Plots under headings, in a grid as wide as its host. Every plot has a card; its figure is created when the card comes
 * near the viewport and disposed of when it is far away, so that a thousand plots cost no more than the visible ones.
 */
export class PlotGrid implements IDisposable {
  constructor(
    private readonly _parts: GridParts,
    private _options: GridOptions
  ) {
    const { host, source, choices, words, themeChanged, load } = _parts;
    this._theme = readTheme(host);
    this._xAxis = source.x;
    this._sections = new Sections(host, words, {
      isOpen: key => this._isOpen(key),
      setOpen: (key, open) => choices.setOpen([key], open),
      card: plot => this._card(plot)
    });
    this._viewport = new ViewportObserver(host, () => this._onViewport());
    this._maker = new FigureMaker(host, {
      due: () => (this._disposed ? [] : this._due()),
      make: (card, bokeh) => this._makeOne(card, bokeh),
      problem: error => _parts.onProblem(error)
    });
    this._resize = new ResizeObserver(() => this._measure());
    this._resize.observe(host);
    source.changed.forEach(signal => signal.connect(this._schedule, this));
    source.refined?.connect(this.schedule, this);
    choices.changed.connect(this._onChoices, this);
    themeChanged?.connect(this._onTheme, this);
    this._measure();
    this._arrange();
    (load ?? loadBokeh)().then(
      bokeh => {
        this._bokeh = bokeh;
        this.schedule();
      },
      error => _parts.onProblem(error)
    );
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  setOptions(options: GridOptions): void {
    const redraw = options.log !== this._options.log || options.tasks !== this._options.tasks;
    this._options = options;
    if (redraw) {
      this._clear();
    }
    this._arrange();
    this.schedule();
  }

  /** Draw everything in the next frame that the update rate allows. */
  schedule(): void {
    this._redraw.need();
    clearTimeout(this._timer); // the interval may be shorter now
    this._timer = undefined;
    this._schedule();
  }

  /** Draw everything that is new and visible. */
  private _schedule(): void {
    if (this._disposed || this._timer !== undefined || this._frame !== 0) {
      return;
    }
    // Updates due within a frame are drawn now: messages arrive about as often, and would all have to wait.
    const interval = Math.max(1000 / this._options.rate, this._redraw.defers ? DEFERRING_MS : 0);
    const wait = Math.max(0, this._drawn + interval - FRAME_MS - performance.now());
    // Not in a requested frame: each frame costs the browser as much as finding out that there is nothing to draw.
    this._timer = setTimeout(() => {
      this._timer = undefined;
      if (document.hidden) {
        this._requestFrame(); // comes when the page is shown again
      } else {
        this._draw();
      }
    }, wait);
  }

  private _requestFrame(): void {
    this._frame = requestAnimationFrame(() => {
      this._frame = 0;
      this._draw();
    });
  }

  dispose(): void {
    if (this._disposed) {
      return;
    }
    this._disposed = true;
    const { source, choices, themeChanged, host } = this._parts;
    clearTimeout(this._timer);
    this._redraw.dispose();
    cancelAnimationFrame(this._frame);
    this._crosshair.dispose();
    source.changed.forEach(signal => signal.disconnect(this._schedule, this));
    source.refined?.disconnect(this.schedule, this);
    choices.changed.disconnect(this._onChoices, this);
    themeChanged?.disconnect(this._onTheme, this);
    source.want(this, []);
    source.look?.(null, []);
    this._resize.disconnect();
    this._viewport.dispose();
    this._clear();
    this._cards.clear();
    host.replaceChildren();
  }

  /** Put the cards of all visible plots in place. */
  private _arrange(): void {
    const { source, choices } = this._parts;
    const { filter } = this._options;
    const { names } = source;
    const split = this._options.tasks === 'split';
    const tasks = split ? names.map(name => this._tasksOf([name]).length) : [];
    const stamp = [filter, choices.pinned.join('\n'), this._choice, tasks, ...names].join('\n');
    if (stamp === this._arranged) {
      return;
    }
    this._arranged = stamp;
    const wanted = filterOf(filter);
    const plots = source.plots().filter(wanted);
    const arrangement = source.arrange(plots, choices.pinned);
    this._open = openByDefault(arrangement);
    const before = new Set(this._cards.keys());
    this._placed = [];
    this._parts.host.classList.toggle('jp-mod-split', split || plots.some(plot => plot.small));
    this._sections.update(split ? replacePlots(arrangement, plot => this._splits(plot)) : arrangement);
    const shown = new Set(this._placed.map(card => card.plot.id));
    for (const id of before) {
      if (!shown.has(id)) {
        this._cards.get(id)?.letGo();
        this._cards.delete(id);
      }
    }
    this._viewport.watch(this._placed.map(card => card.node));
  }

  private _splits(plot: Plot): Plot[] {
    const tasks = this._tasksOf(plot.names);
    return tasks.length > 1 ? splitPlot(plot, tasks) : [plot];
  }

  /** The tasks that report these metrics; all tasks while no data has arrived. */
  private _tasksOf(metrics: readonly string[]): string[] {
    const { source } = this._parts;
    const known = new Set(metrics.flatMap(metric => source.lines(metric).map(line => line.task)));
    return source.tasks.filter(task => known.size === 0 || known.has(task));
  }

  /** Whether a heading is open. While plots are filtered, all headings are, so that matching plots are visible. */
  private _isOpen(key: string): boolean {
    return this._options.filter !== '' || (this._parts.choices.isOpen(key) ?? this._open.has(key));
  }

  /** The card of a plot; `_arrange` requests those that are visible. */
  private _card(plot: Plot): PlotCard {
    const { words, choices } = this._parts;
    let card = this._cards.get(plot.id);
    if (!card || card.plot.names.length !== plot.names.length) {
      card?.letGo();
      card = new PlotCard(plot, words, {
        point: (pointed, x) => this._crosshair.point(pointed, x),
        pin: (metric, pinned) => choices.setPinned(metric, pinned),
        move: (metric, by) => choices.movePinned(metric, by),
        drop: (metric, before) => choices.pinBefore(metric, before),
        reset: () => this._followAll()
      });
      card.setZoomed(!this._follow);
      this._cards.set(plot.id, card);
    }
    card.setPinned(choices.pinned.includes(plot.metric));
    this._placed.push(card);
    return card;
  }

  private _draw(): void {
    const { host, source } = this._parts;
    if (host.clientWidth === 0 || document.hidden) {
      return;
    }
    this._drawn = performance.now();
    if (source.x !== this._xAxis) {
      this._xAxis = source.x;
      this._clear();
    }
    this._arrange();
    const near = this._near();
    const names = near.flatMap(card => card.plot.names);
    source.want(this, names);
    source.look?.(this._follow ? null : this._limits, names); // determines which lines are available
    const extent = this._extent();
    const scale = source.scale ?? 1;
    const limits = this._follow ? extent : this._limits;
    const perUnit = limits ? (scale * this._figureWidth()) / (limits[1] - limits[0]) : Infinity;
    const [start, end] = (limits ?? [-Infinity, Infinity]).map(x => x / scale + source.origin) as [number, number];
    const axis = [scale, source.origin, source.revision].join();
    if (axis !== this._axis) {
      this._axis = axis;
      this._redraw.need();
    }
    const redraw = this._redraw.next(source.tips(names), [start, end], perUnit);
    if (redraw === 'lines' || (redraw === 'values' && !this._showLatest(near))) {
      this._update(near, extent);
    }
    const [ticks, stretches, slow] = [source.ticks(), this._stretches(), source.slow ?? {}];
    for (const { figure, plot } of near) {
      figure?.mark(this._marks(plot, source.colours(plot)));
      figure?.markAxis(ticks, stretches);
      figure?.setSlow(slow);
    }
    this._crosshair.renew();
    if (this._bokeh) {
      void this._maker.make(this._bokeh);
    }
  }

  /** Give the figures of these cards their newest lines. */
  private _update(cards: readonly PlotCard[], extent: [number, number] | null): void {
    if (this._follow && extent) {
      this._limits = extent;
      this._figures().forEach(figure => figure.setLimits(...extent));
    }
    for (const card of cards) {
      const { figure } = card;
      const style = this._style(card.plot);
      const lines = this._lines(card.plot);
      if (figure?.lacks(lines)) {
        card.letGo(); // a mean has replaced the line of a single task
      } else {
        figure?.update(lines, style);
        figure?.showReplaced(this._replaced(card.plot, lines), style);
      }
    }
  }

  /** Show only the newest values. Returns false if one is outside its plot, which must then be drawn. */
  private _showLatest(cards: readonly PlotCard[]): boolean {
    return cards.every(({ figure, plot }) => !figure || figure.showLatest(this._lines(plot), this._style(plot)));
  }

  private _lines(plot: Plot): PlotLine[] {
    return plotLines(plot, name => this._parts.source.lines(name), this._options.tasks);
  }

  private _replaced(plot: Plot, lines: readonly PlotLine[]): ReplacedLine[] {
    return replacedLines(plot, lines, name => this._parts.source.replaced(name));
  }

  /** Plots of the same metric side by side share their y range. */
  private _peers({ task, names }: Plot): Float64Array[] {
    return task === undefined ? [] : names.flatMap(name => this._parts.source.lines(name).map(line => line.y));
  }

  private _near(): PlotCard[] {
    return this._placed.filter(card => this._viewport.has(card.node));
  }

  private _style(plot: Plot): LineStyle {
    const { source } = this._parts;
    return {
      smoothing: this._options.smoothing,
      origin: source.origin,
      scale: source.scale ?? 1,
      colours: source.colours(plot),
      peers: this._peers(plot)
    };
  }

  private _marks(plot: Plot, colours: ReadonlyMap<string, string>): PlacedMark[] {
    const marks = this._parts.source.marks(plot);
    return marks.map(({ x, label, task }) => ({ x, label, colour: colours.get(task) ?? this._theme.error }));
  }

  private _stretches(): Stretch[] {
    const { source, words } = this._parts;
    return source.stretches().map(({ start, end, first, last }) => ({ start, end, label: words.again(first, last) }));
  }

  /** The cards near the viewport that have data but no figure. */
  private _due(): PlotCard[] {
    const { host } = this._parts;
    return this._near().filter(card => !card.figure && host.clientWidth > 0 && this._lines(card.plot).length > 0);
  }

  private async _makeOne(card: PlotCard, bokeh: BokehApi): Promise<void> {
    if (this._disposed || card.figure || !this._viewport.has(card.node)) {
      return;
    }
    const { plot } = card;
    const style = this._style(plot);
    const { unit } = plot;
    const { words, source } = this._parts;
    const { axis } = source;
    const figure = card.make(bokeh, {
      unit,
      log: this._options.log,
      axis,
      names: { x: words.x(axis), y: unit === 'cores' ? words.cores(yName(plot)) : yName(plot) },
      theme: this._theme,
      small: plot.small ?? false
    });
    figure.onLimits = (start, end) => {
      this._setFollow(false);
      this._limits = [start, end];
      this._figures().forEach(other => other.setLimits(start, end));
      this.schedule();
    };
    figure.onHide = (task, alone) => this._hide(task, alone);
    figure.setHidden(this._hidden);
    if (this._limits) {
      figure.setLimits(...this._limits);
    }
    const lines = this._lines(plot);
    figure.update(lines, style);
    figure.showReplaced(this._replaced(plot, lines), style);
    figure.mark(this._marks(plot, style.colours));
    figure.markAxis(this._parts.source.ticks(), this._stretches());
    figure.setSlow(this._parts.source.slow ?? {});
    this._alignLegends(card);
    await figure.show();
  }

  /** All legends have the height of the tallest, so that a card's height does not depend on whether it has a figure. */
  private _alignLegends(card: PlotCard): void {
    const height = card.legendHeight;
    if (height > this._legendHeight) {
      this._legendHeight = height;
      this._parts.host.style.setProperty('--jp-dtf-legend-height', `${height}px`);
    }
  }

  private _figures(): MetricFigure[] {
    return this._placed.flatMap(card => card.figure ?? []);
  }

  /** Called when a card has come near the viewport or moved far away. */
  private _onViewport(): void {
    for (const card of this._placed) {
      if (card.figure && !card.isFocused && !this._viewport.has(card.node)) {
        card.letGo();
      }
    }
    // Immediately rather than at the update rate: the user is waiting for what they scrolled to.
    if (this._bokeh && this._frame === 0 && !this._disposed) {
      clearTimeout(this._timer);
      this._timer = undefined;
      this._redraw.need();
      this._requestFrame();
    }
  }

  private _clear(): void {
    for (const card of this._cards.values()) {
      card.letGo();
    }
    this._setFollow(true);
    this._limits = null;
    this._legendHeight = 0;
    this._parts.host.style.removeProperty('--jp-dtf-legend-height');
  }

  /** The first and the last x of any line, on the plots' axis: the limits of all of them. */
  private _extent(): [number, number] | null {
    const { source } = this._parts;
    const extent = source.xExtent(this._placed.flatMap(card => card.plot.names));
    if (!extent) {
      return null;
    }
    const [low, high] = extent.map(x => (x - source.origin) * (source.scale ?? 1)) as [number, number];
    return [low, high > low ? high : low + 1];
  }

  private _figureWidth(): number {
    return Math.max(0, ...this._figures().map(figure => figure.frame?.width ?? 0));
  }

  /** Set whether the whole lines are visible. */
  private _setFollow(follow: boolean): void {
    this._follow = follow;
    this._placed.forEach(card => card.setZoomed(!follow));
  }

  private _followAll(): void {
    this._setFollow(true);
    for (const figure of this._figures()) {
      figure.follow = true;
      figure.fit();
    }
    this.schedule();
  }

  /** Hide a task in all plots or show it again; with `alone`, hide or show all others. */
  private _hide(task: string, alone: boolean): void {
    if (alone) {
      const others = new Set(this._figures().flatMap(figure => figure.tasks));
      others.delete(task);
      const isAlone = !this._hidden.has(task) && [...others].every(other => this._hidden.has(other));
      this._hidden.clear();
      if (!isAlone) {
        others.forEach(other => this._hidden.add(other));
      }
    } else if (!this._hidden.delete(task)) {
      this._hidden.add(task);
    }
    this._figures().forEach(figure => figure.setHidden(this._hidden));
  }

  private _measure(): void {
    const { host, source } = this._parts;
    const width = host.clientWidth;
    if (width > 0) {
      // A plot is never wider than its host, and rarely wider than half of it.
      source.needWidth(Math.min(width, 1200));
      this._legendHeight = 0;
      host.style.removeProperty('--jp-dtf-legend-height');
      this._placed.filter(card => card.figure).forEach(card => this._alignLegends(card));
      this.schedule();
    }
  }

  private _onChoices(): void {
    this._choice += 1;
    this._arrange();
    this.schedule();
  }

  private _onTheme(): void {
    this._theme = readTheme(this._parts.host);
    this._figures().forEach(figure => figure.setTheme(this._theme));
    this.schedule();
  }

  private _bokeh: BokehApi | null = null;
  private _theme: PlotTheme;
  private _xAxis: ShownAxis;
  /** The scale, origin and revision of the x axis: when they change, all lines are moved or replaced. */
  private _axis = '';
  private readonly _hidden = new Set<string>();
  private readonly _redraw = new RedrawPace(() => this._schedule());
  private _follow = true;
  private _limits: [number, number] | null = null;
  private _disposed = false;
  private readonly _maker: FigureMaker;
  private _arranged = '';
  private _choice = 0;
  private _legendHeight = 0;
  private _drawn = 0;
  private _frame = 0;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _open: ReadonlySet<string> = new Set();
  /** In page order. */
  private _placed: PlotCard[] = [];
  private readonly _cards = new Map<string, PlotCard>();
  private readonly _crosshair = new SharedCrosshair(() => this._placed.filter(card => card.figure));
  private readonly _sections: Sections;
  private readonly _viewport: ViewportObserver;
  private readonly _resize: ResizeObserver;
}

/** The y axis label: a metric's name without its headings. */
function yName({ metric }: Plot): string {
  return metricTitle(metric.slice(metric.lastIndexOf('/') + 1));
}
