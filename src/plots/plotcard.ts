import type { BokehApi } from './bokeh';
import { element } from './domhelpers';
import { shortTitle } from './plotarrangement';
import { figureHeight, MetricFigure } from './figure';
import type { FigureOptions } from './figureoptions';
import type { Plot } from './metricplots';
import { Legend, PlotWords } from './legend';
import { PlotTools } from './plottools';
import { download, Format } from './savemenu';

/** The user's actions on a card. */
export interface CardActions {
  /** The pointer or the keyboard cursor is at this x of this card; null when it has left. */
  point(card: PlotCard, x: number | null): void;
  pin(metric: string, pinned: boolean): void;
  /** Move a pinned plot by this many positions among the pinned ones. */
  move(metric: string, by: number): void;
  /** Pin a plot before the plot on which it was dropped. */
  drop(metric: string, before: string): void;
  /** Reset the zoom. */
  reset(): void;
}

// The MIME type of a dragged plot.
const DRAGGED = 'application/x-jupyter-dtf-plot';
// How far one press of an arrow key moves the cursor, as a fraction of the plot's width.
const KEY_STEP = 0.02;
const VALUE = ['aria-valuemin', 'aria-valuemax', 'aria-valuenow', 'aria-valuetext'] as const;

/**
 * The place of one plot in the page: its heading, its legend and, while it is near the viewport, its Bokeh figure. It
 * has the same size with and without a figure, so that the page does not move when figures are created or disposed of.
 */
export class PlotCard {
  readonly node = element('section', 'jp-dtf-plot');

  constructor(
    readonly plot: Plot,
    private readonly _words: PlotWords,
    private readonly _actions: CardActions
  ) {
    this.node.setAttribute('aria-label', plot.title);
    const head = element('div', 'jp-dtf-plot-head');
    this._title.title = plot.heading === undefined ? plot.metric : plot.title;
    this._tools = new PlotTools(plot.small ? plot.title : plot.metric, _words, {
      pin: plot.heading === undefined ? pinned => _actions.pin(plot.metric, pinned) : null,
      order: by => _actions.move(plot.metric, by),
      move: moves => this._figure?.setMoving(moves),
      reset: () => _actions.reset(),
      save: format => void this._save(format)
    });
    head.append(this._title, this._tools.node);
    if (plot.heading === undefined) {
      this._letDrag(plot.metric);
    }
    this._legend = new Legend(_words);
    this._area.style.height = `${figureHeight(plot.small ?? false)}px`;
    this._area.append(this._canvas, this._crosshair);
    this._crosshair.hidden = true;
    this.node.append(head, this._legend.node, this._area);
    this.node.onpointermove = event => {
      this._pointer = event.clientX;
      const x = this._pointedX();
      this._actions.point(this, x);
      this._area.title = this._figure?.markNear(x) ?? '';
    };
    this.node.onpointerleave = () => this._actions.point(this, null);
    this._area.onkeydown = event => this._onKey(event);
    this._area.ondblclick = () => _actions.reset();
    this._area.onblur = () => this._actions.point(this, null);
  }

  get figure(): MetricFigure | null {
    return this._figure;
  }

  /** The legend's height in pixels. */
  get legendHeight(): number {
    return this._legend.node.offsetHeight;
  }

  /** Whether any part of it is in the viewport. */
  get isInSight(): boolean {
    const { top, bottom } = this.node.getBoundingClientRect();
    return bottom > 0 && top < window.innerHeight;
  }

  /** Whether it contains the keyboard focus. */
  get isFocused(): boolean {
    return this.node.contains(document.activeElement);
  }

  setPinned(pinned: boolean): void {
    this._title.textContent = pinned ? this.plot.title : shortTitle(this.plot);
    this._tools.setPinned(pinned);
  }

  /** Set whether only a part of the lines is visible. */
  setZoomed(zoomed: boolean): void {
    this._tools.setZoomed(zoomed);
  }

  /** Create the figure; it is not drawn before `show` is called. */
  make(bokeh: BokehApi, options: FigureOptions): MetricFigure {
    this._figure = new MetricFigure(bokeh, this._canvas, this._legend, options);
    this._figure.setMoving(this._tools.moves);
    this._tools.setFigure(true);
    this._area.tabIndex = 0;
    this._area.setAttribute('role', 'slider');
    this._area.setAttribute('aria-label', this._words.values(this.plot.title));
    // A slider must have a value, even before the pointer has been on it.
    this._value(0, 0, 0);
    this._area.setAttribute('aria-valuetext', '–');
    return this._figure;
  }

  /** Dispose of the figure. */
  letGo(): void {
    this._figure?.dispose();
    this._figure = null;
    this._tools.setFigure(false);
    this._crosshair.hidden = true;
    this._at = null;
    for (const name of ['tabindex', 'role', 'aria-label', ...VALUE]) {
      this._area.removeAttribute(name);
    }
  }

  /** Show the pointer's position, whether it is on this plot or another. */
  showCrosshair(x: number | null): void {
    const frame = this._figure?.frame;
    if (!this._figure || !frame) {
      return;
    }
    const [start, end] = this._figure.limits;
    const at = x === null ? -1 : (x - start) / (end - start);
    const inside = at >= 0 && at <= 1;
    if (this._crosshair.hidden === inside) {
      this._crosshair.hidden = !inside;
    }
    if (inside) {
      // A transform moves it without a new layout and without redrawing the plot.
      const { style } = this._crosshair;
      style.top = `${frame.top}px`;
      style.height = `${frame.height}px`;
      style.transform = `translateX(${(frame.left + at * frame.width).toFixed(1)}px)`;
    }
    if (x !== null && document.activeElement === this._area) {
      this._at = x;
      this._value(...this._figure.limits, x);
      this._area.setAttribute('aria-valuetext', this._figure.read(x));
    }
  }

  /** Make the heading draggable onto another card. */
  private _letDrag(metric: string): void {
    const { node } = this;
    const held = (event: DragEvent) => event.dataTransfer?.types.includes(DRAGGED) ?? false;
    this._title.draggable = true;
    this._title.ondragstart = event => event.dataTransfer?.setData(DRAGGED, metric);
    node.ondragover = event => {
      if (held(event)) {
        event.preventDefault(); // allow dropping here
        node.classList.add('jp-mod-target');
      }
    };
    node.ondragleave = () => node.classList.remove('jp-mod-target');
    node.ondrop = event => {
      node.classList.remove('jp-mod-target');
      if (held(event)) {
        event.preventDefault();
        this._actions.drop(event.dataTransfer!.getData(DRAGGED), metric);
      }
    };
  }

  private _pointedX(): number | null {
    const frame = this._figure?.frame;
    if (!this._figure || !frame) {
      return null;
    }
    const at = (this._pointer - this._canvas.getBoundingClientRect().left - frame.left) / frame.width;
    const [start, end] = this._figure.limits;
    return at >= 0 && at <= 1 ? start + at * (end - start) : null;
  }

  private _onKey(event: KeyboardEvent): void {
    if (!this._figure || event.altKey || event.ctrlKey || event.metaKey) {
      return;
    }
    const [start, end] = this._figure.limits;
    const now = this._at ?? start;
    const step = KEY_STEP * (end - start) * (event.shiftKey ? 5 : 1);
    const to = { ArrowRight: now + step, ArrowLeft: now - step, Home: start, End: end }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      const x = Math.min(end, Math.max(start, to));
      this._at = x; // the next key may arrive before the next frame
      this._value(start, end, x);
      this._actions.point(this, x);
    } else if (event.key === 'Escape') {
      this._actions.point(this, null);
    }
  }

  /** Set the slider's ARIA values; screen readers read its text. */
  private _value(...[start, end, now]: [number, number, number]): void {
    [start, end, now].forEach((value, index) => this._area.setAttribute(VALUE[index]!, String(value)));
  }

  private async _save(format: Format): Promise<void> {
    const figure = this._figure;
    const blob =
      format === 'csv'
        ? figure && new Blob([figure.table()], { type: 'text/csv' })
        : format === 'svg'
          ? await figure?.drawing()
          : await new Promise<Blob | null>(take => {
              const picture = figure?.picture();
              return picture ? picture.toBlob(take) : take(null);
            });
    if (blob) {
      download(blob, this.plot.title, format);
    }
  }

  private _figure: MetricFigure | null = null;
  private _pointer = 0;
  /** The keyboard cursor's position on the lines. */
  private _at: number | null = null;
  private readonly _title = element('h3');
  private readonly _tools: PlotTools;
  private readonly _legend: Legend;
  private readonly _area = element('div', 'jp-dtf-plot-area');
  private readonly _canvas = element('div', 'jp-dtf-plot-canvas');
  private readonly _crosshair = element('div', 'jp-dtf-plot-crosshair');
}
