import type { Unit } from '../model/format';
import type { ShownAxis } from '../model/shownaxis';
import type { PlotTheme } from './theme';

/** The options of a figure. */
export interface FigureOptions {
  unit: Unit;
  log: boolean;
  axis: ShownAxis;
  /** The axis labels. */
  names: { x: string; y: string };
  theme: PlotTheme;
  /** Whether it is one of several plots of the same metric. */
  small?: boolean;
}
