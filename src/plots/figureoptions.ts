import type { Unit } from '../model/format';
import type { ShownAxis } from '../model/shownaxis';
import type { PlotTheme } from './theme';

/** What a plot is of. */
export interface FigureOptions {
  unit: Unit;
  log: boolean;
  axis: ShownAxis;
  /** What the axes are called. */
  names: { x: string; y: string };
  theme: PlotTheme;
  /** One of many plots of the same metric. */
  small?: boolean;
}
