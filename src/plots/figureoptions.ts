import type { Unit } from '../model/format';
import type { XAxis } from '../model/run';
import type { PlotTheme } from './theme';

/** What a plot is of. */
export interface FigureOptions {
  unit: Unit;
  log: boolean;
  axis: XAxis;
  /** What the axes are called. */
  names: { x: string; y: string };
  theme: PlotTheme;
  /** One of many plots of the same metric. */
  small?: boolean;
}
