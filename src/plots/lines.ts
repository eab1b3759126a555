/** What is done to lines before they are drawn: smoothing, means over tasks, limits. Pure. */

export interface XY {
  x: Float64Array;
  y: Float64Array;
}

/**
 * Exponential moving average of `y` with the given weight of the past (0 to below 1), without the bias of its start.
 * What is not finite stays a gap and does not spread.
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

/**
 * The mean of several lines at the points of all of them, each line interpolated between its own. Where a line has not
 * begun or has ended it does not count. The x of every line ascend.
 */
export function mean(lines: readonly XY[]): XY {
  if (lines.length === 1) {
    return lines[0]!;
  }
  const x = Float64Array.from(new Set(lines.flatMap(line => Array.from(line.x)))).sort();
  const sum = new Float64Array(x.length);
  const count = new Float64Array(x.length);
  for (const line of lines) {
    let j = 0;
    for (let i = 0; i < x.length; i++) {
      const value = x[i]!;
      while (j + 1 < line.x.length && line.x[j + 1]! <= value) {
        j++;
      }
      const at = line.x[j];
      if (at === undefined || value < at) {
        continue;
      }
      const next = line.x[j + 1];
      let y = line.y[j]!;
      if (value > at) {
        if (next === undefined) {
          continue;
        }
        y += ((line.y[j + 1]! - y) * (value - at)) / (next - at);
      }
      if (Number.isFinite(y)) {
        sum[i]! += y;
        count[i]! += 1;
      }
    }
  }
  return { x, y: sum.map((total, i) => (count[i]! > 0 ? total / count[i]! : NaN)) };
}

/** Smallest and largest finite value, of positive ones only if `positive`; null if there is none. */
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

/** The limits of a y axis around data: a little air, and never of no height. */
export function padded([low, high]: [number, number], log: boolean): [number, number] {
  if (log) {
    const factor = Math.max(1.1, (high / low) ** 0.05);
    return [low / factor, high * factor];
  }
  const span = high - low || Math.abs(high) * 0.1 || 1;
  const start = low - 0.06 * span;
  return [low >= 0 && start < 0 ? 0 : start, high + 0.06 * span];
}

/** The index of the last x at or before `at`, -1 if there is none. */
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
