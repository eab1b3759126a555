import type { ISignal } from '@lumino/signaling';

import type { ShownAxis } from '../model/shownaxis';
import type { Line, ReplacedLine } from '../model/series';
import type { Tick } from './axismarks';
import type { Arrangement } from './plotarrangement';
import type { Plot } from './metricplots';

/** A point in time to mark on a plot. A mark without a task indicates a problem. `label` may have several lines. */
export interface SourceMark {
  x: number | null;
  label: string;
  task: string;
}

/** An interval of the axis in which the steps from `first` to `last` were executed a second time. */
export interface SourceStretch {
  start: number;
  end: number;
  first: number;
  last: number;
}

/** The data source of a grid of plots. */
export interface PlotSource {
  /** Signals that there may be something new to draw. */
  readonly changed: readonly ISignal<unknown, unknown>[];
  /** Signals that lines have been replaced by finer ones. */
  readonly refined?: ISignal<unknown, unknown>;
  /** The x of the lines: everything is redrawn when it changes. */
  readonly x: ShownAxis;
  /** The axis's label. */
  readonly axis: ShownAxis;
  /** The origin of x. */
  readonly origin: number;
  /** Axis units per unit of the lines' x; 1 by default. */
  readonly scale?: number;
  /** The names of all series, drawn or not. */
  readonly names: readonly string[];
  readonly tasks: readonly string[];
  /** The plots of these series, in order. */
  plots(): Plot[];
  /** The visible plots, grouped under headings. */
  arrange(plots: readonly Plot[], pinned: readonly string[]): Arrangement;
  lines(name: string): Line[];
  /** Earlier values of repeated steps. */
  replaced(name: string): ReplacedLine[];
  /** The smallest and largest x of these series; null until any data has arrived. */
  xExtent(names: Iterable<string>): [number, number] | null;
  /** Increases when lines are sent again from their start rather than continued. */
  readonly revision?: number;
  /** The newest x of each line of these series, in an order that does not change. */
  tips(names: Iterable<string>): number[];
  /** Declare that `viewer` shows exactly these series. */
  want(viewer: object, names: readonly string[]): void;
  /**
   * Set the visible range of the axis for these series, which may then be available at a finer resolution; null: the
   * whole range.
   */
  look?(limits: readonly [number, number] | null, names: readonly string[]): void;
  /** Report the width of a plot in pixels. */
  needWidth(pixels: number): void;
  /** The colors of a plot's lines, by task. */
  colours(plot: Plot): ReadonlyMap<string, string>;
  /** Tasks for which the others wait in every step, each with a sentence about it. */
  readonly slow?: Readonly<Record<string, string>>;
  marks(plot: Plot): SourceMark[];
  /** Ticks at the axis of each plot, sorted by x. */
  ticks(): Tick[];
  /** Highlighted intervals in the background of each plot. */
  stretches(): SourceStretch[];
}
