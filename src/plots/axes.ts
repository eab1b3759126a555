import {
  formatClock,
  formatClockTicks,
  formatDuration,
  formatNumber,
  formatTicks,
  formatTimeTicks,
  isBinary
} from '../model/format';
import type { ShownAxis } from '../model/shownaxis';
import type { Axis, BokehApi, Figure } from './bokeh';
import type { FigureOptions } from './figureoptions';
import type { PlotTheme } from './theme';

// Longer names appear in the plot's heading only.
const LONGEST_NAME = 30;

/** Set the ticks and labels of a figure's axes. */
export function setAxes(bokeh: BokehApi, figure: Figure, options: FigureOptions): void {
  const { axis, unit, log, names } = options;
  const [xAxis, yAxis] = [figure.xaxes[0]!, figure.yaxes[0]!];
  const formatter = (format: (ticks: number[]) => string[]) => {
    const made = new bokeh.BasicTickFormatter();
    made.doFormat = format;
    return made;
  };
  xAxis.setv({
    axis_label: names.x,
    formatter: formatter(
      { time: formatTimeTicks, wall: formatClockTicks }[axis as string] ?? (ticks => formatTicks(ticks, 'number'))
    )
  });
  if (axis === 'time' || axis === 'wall') {
    const ticker = new bokeh.AdaptiveTicker({
      base: 60,
      mantissas: [1, 2, 5, 10, 15, 20, 30],
      min_interval: 1,
      num_minor_ticks: 0
    });
    xAxis.setv({ ticker });
    figure.xgrids[0]?.setv({ ticker });
  }
  // A time of day, possibly with its date, is wider than a number.
  xAxis.ticker.setv({ desired_num_ticks: axis === 'wall' ? 3 : options.small ? 4 : 6 });
  yAxis.ticker.setv({ desired_num_ticks: options.small ? 3 : 5 });
  yAxis.setv({
    axis_label: names.y.length > LONGEST_NAME ? `…${names.y.slice(1 - LONGEST_NAME)}` : names.y,
    formatter: formatter(ticks => formatTicks(ticks, unit))
  });
  if (isBinary(unit) && !log) {
    const ticker = new bokeh.AdaptiveTicker({
      base: 1024,
      mantissas: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
      num_minor_ticks: 0,
      desired_num_ticks: 5
    });
    yAxis.setv({ ticker });
    figure.ygrids[0]?.setv({ ticker });
  }
}

/** Apply the theme's colors and fonts to everything but the lines. */
export function colourAxes(figure: Figure, theme: PlotTheme): void {
  figure.setv({ background_fill_color: null, border_fill_color: null, outline_line_color: theme.faint });
  for (const axis of [...figure.xaxes, ...figure.yaxes]) {
    styleAxis(axis, theme);
  }
  for (const grid of [...figure.xgrids, ...figure.ygrids]) {
    grid.setv({ grid_line_color: theme.faint, grid_line_alpha: 0.6 });
  }
}

function styleAxis(axis: Axis, theme: PlotTheme): void {
  axis.setv({
    axis_line_color: null,
    major_tick_line_color: theme.faint,
    minor_tick_line_color: null,
    major_label_text_color: theme.text,
    major_label_text_font: theme.font,
    major_label_text_font_size: theme.fontSize,
    axis_label_text_color: theme.soft,
    axis_label_text_font: theme.font,
    axis_label_text_font_size: theme.fontSize,
    axis_label_text_font_style: 'normal',
    axis_label_standoff: 3
  });
}

/** A value of x as text. */
export function axisText(x: number, axis: ShownAxis): string {
  switch (axis) {
    case 'time':
      return formatDuration(x);
    case 'wall':
      return formatClock(x);
    case 'epoch':
      return formatNumber(x);
    default:
      return formatNumber(Math.round(x));
  }
}
