import type { Forecast } from '../api/schema';
import { formatNumber } from '../model/format';
import { countsOf, curveOf, type Measured } from '../model/forecasttable';
import { colourAxes } from './axes';
import type { BokehApi, BokehDocument, Box, Figure, Model, PlotView, Range } from './bokeh';
import { extent } from './lineprocessing';
import { PALETTE } from './palette';
import type { PlotTheme } from './theme';

const HEIGHT = 320;
const LEFT = 74;
const BAND = 0.16;
// Margin around the data, as a factor.
const AIR = 1.25;
const AT = { x: { field: 'x' }, y: { field: 'y' } };

/**
 * Examples per second over the number of tasks, on logarithmic axes: forecasts with their bands, linear scaling,
 * measurements.
 */
export class ScaleChart {
  /** `names`: the axis labels. */
  constructor(
    private readonly _bokeh: BokehApi,
    private readonly _host: HTMLElement,
    private readonly _names: { x: string; y: string }
  ) {}

  /** Draw these forecasts and measurements in place of the previous ones. */
  async draw(forecasts: readonly Forecast[], measured: readonly Measured[], theme: PlotTheme): Promise<void> {
    this.dispose();
    const { Document, Plotting, Range1d } = this._bokeh;
    const curves = forecasts.map(forecast => curveOf(forecast, true));
    const others = forecasts.map(forecast => curveOf(forecast, false));
    const counts = countsOf(forecasts);
    const speeds = extent(
      [
        ...[...curves, ...others].flatMap(({ y, low, high, linear }) => [y, low, high, linear]),
        Float64Array.from(measured, ({ examplesPerSecond }) => examplesPerSecond)
      ],
      true
    );
    if (counts.length === 0 || !speeds) {
      return;
    }
    this._x = new Range1d({ start: counts[0]! / AIR, end: counts[counts.length - 1]! * AIR });
    const figure = Plotting.figure({
      height: HEIGHT,
      sizing_mode: 'stretch_width',
      x_axis_type: 'log',
      y_axis_type: 'log',
      x_range: this._x,
      y_range: new Range1d({ start: speeds[0] / AIR, end: speeds[1] * AIR }),
      tools: '',
      toolbar_location: null,
      output_backend: 'canvas',
      min_border_left: LEFT,
      min_border_right: 12,
      min_border_top: 6
    });
    this._axes(figure, counts, theme);
    curves.forEach((curve, index) => this._curve(figure, curve, others[index]!, PALETTE[index % PALETTE.length]!));
    const x = Float64Array.from(measured, ({ tasks }) => tasks);
    const y = Float64Array.from(measured, ({ examplesPerSecond }) => examplesPerSecond);
    figure.scatter({
      ...AT,
      source: this._source({ x, y }),
      size: 11,
      marker: 'diamond',
      fill_color: theme.text,
      line_color: theme.ground
    });
    this._document = new Document();
    this._document.config.setv({ notifications: null });
    this._document.add_root(figure);
    const drawn = this._document;
    const views = await this._bokeh.embed.add_document_standalone(drawn, this._host, [this._host]);
    if (this._document === drawn) {
      this._view = views.get(figure);
    } else {
      this._letGo(drawn); // another drawing has replaced it in the meantime
    }
  }

  /** The plot's frame in pixels of its host; null before it is drawn. */
  get frame(): Box | null {
    return this._view?.frame.bbox ?? null;
  }

  /** The position of a number of tasks along the axis, from 0 to 1. */
  shareOf(tasks: number): number {
    const { start, end } = this._x ?? { start: 1, end: 2 };
    return Math.log(tasks / start) / Math.log(end / start);
  }

  /** The number of tasks at a position, as a real number. */
  tasksAt(share: number): number {
    const { start, end } = this._x ?? { start: 1, end: 2 };
    return start * (end / start) ** share;
  }

  dispose(): void {
    const { _document: known } = this;
    this._document = null;
    this._view = null;
    if (known) {
      this._letGo(known);
    }
  }

  private _letGo(drawn: BokehDocument): void {
    const { documents } = this._bokeh;
    drawn.clear();
    documents.splice(0, documents.length, ...documents.filter(other => other !== drawn));
  }

  private _axes(figure: Figure, counts: readonly number[], theme: PlotTheme): void {
    const [xAxis, yAxis] = [figure.xaxes[0]!, figure.yaxes[0]!];
    const formatter = new this._bokeh.BasicTickFormatter();
    formatter.doFormat = ticks => ticks.map(formatNumber);
    const whole = new this._bokeh.BasicTickFormatter();
    whole.doFormat = ticks => ticks.map(String);
    const ticker = new this._bokeh.FixedTicker({ ticks: [...counts], minor_ticks: [] });
    xAxis.setv({ axis_label: this._names.x, formatter: whole, ticker });
    figure.xgrids[0]?.setv({ ticker });
    yAxis.setv({ axis_label: this._names.y, formatter });
    colourAxes(figure, theme);
  }

  private _curve(
    figure: Figure,
    curve: ReturnType<typeof curveOf>,
    others: ReturnType<typeof curveOf>,
    colour: string
  ): void {
    const { x, y, low, high, linear } = curve;
    figure.varea({
      x: { field: 'x' },
      y1: { field: 'low' },
      y2: { field: 'high' },
      source: this._source({ x, low, high }),
      fill_color: colour,
      fill_alpha: BAND
    });
    figure.line({
      ...AT,
      source: this._source({ x, y: linear }),
      line_color: colour,
      line_dash: [3, 4],
      line_width: 1
    });
    figure.line({ ...AT, source: this._source({ x, y }), line_color: colour, line_width: 2 });
    figure.scatter({ ...AT, source: this._source({ x, y }), size: 5, fill_color: colour, line_color: colour });
    figure.scatter({
      ...AT,
      source: this._source({ x: others.x, y: others.y }),
      size: 7,
      marker: 'x',
      line_color: colour,
      line_alpha: 0.7
    });
  }

  private _source(data: Record<string, Float64Array>): Model {
    return new this._bokeh.ColumnDataSource({ data });
  }

  private _x: Range | null = null;
  private _document: BokehDocument | null = null;
  private _view: PlotView | null = null;
}
