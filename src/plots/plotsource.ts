import type { ISignal } from '@lumino/signaling';

import type { ShownAxis } from '../model/shownaxis';
import type { Line, ReplacedLine } from '../model/series';
import type { Stretch, Tick } from './axismarks';
import type { Arrangement } from './plotarrangement';
import type { Plot } from './metricplots';

/** A moment to mark on a plot. Without a task it is something wrong. `label` may have several lines. */
export interface SourceMark {
  x: number | null;
  label: string;
  task: string;
}

/** Where the plots of a grid come from, and what is drawn in them. */
export interface PlotSource {
  /** Each says that there may be something new to draw. */
  readonly changed: readonly ISignal<unknown, unknown>[];
  /** What the x of the lines is: all is drawn anew when it changes. */
  readonly x: ShownAxis;
  /** What the axis says it is. */
  readonly axis: ShownAxis;
  /** What x counts from. */
  readonly origin: number;
  /** How much of the axis one of the lines' x is; 1 where that is not said. */
  readonly scale?: number;
  /** All series by their names, drawn or not. */
  readonly names: readonly string[];
  readonly tasks: readonly string[];
  /** The plots of these series, in their order. */
  plots(): Plot[];
  /** Those that are to be seen, under their headings. */
  arrange(plots: readonly Plot[], pinned: readonly string[]): Arrangement;
  lines(name: string): Line[];
  /** What was done twice, as it was before. */
  replaced(name: string): ReplacedLine[];
  /** From the first to the last x of these series; null while none has come. */
  xExtent(names: Iterable<string>): [number, number] | null;
  /** `viewer` shows these series, and none but these. */
  want(viewer: object, names: readonly string[]): void;
  /** These limits of the axis are seen, of these series, which may then be had finer; null: all is. */
  look?(limits: readonly [number, number] | null, names: readonly string[]): void;
  /** A plot is this many pixels wide. */
  needWidth(pixels: number): void;
  /** The colours of a plot's lines, by their tasks. */
  colours(plot: Plot): ReadonlyMap<string, string>;
  /** Tasks for which the others wait in every step, with a sentence on each. */
  readonly slow?: Readonly<Record<string, string>>;
  marks(plot: Plot): SourceMark[];
  /** Marked at the axis of each plot, in the order of x. */
  ticks(): Tick[];
  /** Marked on the ground of each. */
  stretches(): Stretch[];
}
