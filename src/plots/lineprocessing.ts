/** Processing of lines before they are drawn: smoothing and limits. Pure. */

import type { PlotLine } from './metricplots';

/**
 * Exponential moving average of `y` with bias correction, for a given weight of past values (0 to below 1). Non-finite
 * values remain gaps and do not affect others.
 */
export function smooth(y: Float64Array, weight: number): Float64Array {
  if (weight <= 0) {
    return y;
  }
  const result = new Float64Array(y.length);
  let average = 0;
  let mass = 0;
  for (let i = 0; i < y.length; i++) {
    const value = y[i]!;
    if (!Number.isFinite(value)) {
      result[i] = value;
      continue;
    }
    average = weight * average + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    result[i] = average / mass;
  }
  return result;
}

/** Smallest and largest finite value, only of positive ones if `positive`; null if there is none. */
export function extent(arrays: readonly Float64Array[], positive = false): [number, number] | null {
  let low = Infinity;
  let high = -Infinity;
  for (const array of arrays) {
    for (const value of array) {
      if (Number.isFinite(value) && !(positive && value <= 0)) {
        low = value < low ? value : low;
        high = value > high ? value : high;
      }
    }
  }
  return low <= high ? [low, high] : null;
}

/**
 * The values of `y` whose `x` is within the limits, and the adjacent ones, since the line continues there. `x` need not
 * be monotonic.
 */
export function within(x: Float64Array, y: Float64Array, [start, end]: readonly [number, number]): Float64Array {
  if (x.length === 0 || (x[0]! >= start && x[x.length - 1]! <= end)) {
    return y;
  }
  const inside = (i: number) => x[i]! >= start && x[i]! <= end;
  return y.filter((_, i) => inside(i) || (x[i]! < start && x[i + 1]! >= start) || (x[i]! > end && x[i - 1]! <= end));
}

/** The limits of a y axis for data: with a margin, a non-zero height, and starting at zero if `zero`. */
export function padded([low, high]: [number, number], log: boolean, zero = false): [number, number] {
  if (log) {
    const factor = Math.max(1.1, (high / low) ** 0.05);
    return [low / factor, high * factor];
  }
  const least = zero ? Math.min(low, 0) : low;
  if (high === least) {
    const air = Math.abs(high) / 2 || 1;
    return [high >= 0 ? Math.max(0, high - air) : high - air, high + air];
  }
  const span = high - least;
  const start = least - 0.06 * span;
  return [least >= 0 && start < 0 ? 0 : start, high + 0.06 * span];
}

/** The index of the last x not greater than `at`; -1 if there is none. */
export function indexAt(x: Float64Array, at: number): number {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle]! <= at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}

/**
 * Whether the values are means over a whole set of data: there are few of them, and smoothing would only delay them.
 */
export function isWhole({ validation, phase }: PlotLine): boolean {
  return validation || phase === 'epoch';
}

/** The values of a line as they are drawn: smoothed, except means over a whole set of data. */
export function smoothed(line: PlotLine, smoothing: number): Float64Array {
  return isWhole(line) ? line.y : smooth(line.y, smoothing);
}

/** `x` on an axis with this origin and this many units per unit of `x`. */
export function shifted(x: Float64Array, origin: number, scale = 1): Float64Array {
  return origin === 0 && scale === 1 ? x : x.map(value => (value - origin) * scale);
}

/** The data of a line without points. */
export function empty(): { x: Float64Array; y: Float64Array } {
  return { x: new Float64Array(), y: new Float64Array() };
}

/** A logarithmic axis cannot show values of zero or less: they become gaps. */
export function drawable(y: Float64Array, log: boolean): Float64Array {
  return log ? y.map(value => (value > 0 ? value : NaN)) : y;
}
