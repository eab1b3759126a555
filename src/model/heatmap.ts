/** The histograms of one name over the steps, as a heat map. Pure. */

import type { Histogram } from '../api/schema';

/** One column for each step, one row for each bin of the range of values, the lowest first. */
export interface HeatMap {
  steps: number[];
  low: number;
  high: number;
  rows: number;
  /** The fraction of a step's finite values in each bin, column by column. */
  shares: Float64Array;
  /** The largest fraction. */
  most: number;
}

/** Resample histograms, each with its own limits, to common bins; null if none has a finite value. */
export function heatMap(histograms: readonly Histogram[], rows = 48): HeatMap | null {
  const known = histograms.filter(({ counts }) => counts.length > 0);
  if (known.length === 0) {
    return null;
  }
  let low = Math.min(...known.map(one => one.low));
  let high = Math.max(...known.map(one => one.high));
  if (low === high) {
    const air = Math.abs(low) / 2 || 0.5;
    [low, high] = [low - air, high + air];
  }
  const shares = new Float64Array(histograms.length * rows);
  const height = (high - low) / rows;
  histograms.forEach((one, column) => {
    const total = one.counts.reduce((sum, count) => sum + count, 0);
    const width = (one.high - one.low) / one.counts.length;
    one.counts.forEach((count, bin) => {
      const start = one.low + bin * width;
      const first = clamp(Math.floor((start - low) / height), rows);
      const last = width === 0 ? first : clamp(Math.ceil((start + width - low) / height) - 1, rows);
      for (let row = first; row <= last; row++) {
        const bottom = Math.max(start, low + row * height);
        const top = Math.min(start + width, low + (row + 1) * height);
        const part = first === last ? 1 : Math.max(0, top - bottom) / width;
        shares[column * rows + row]! += (part * count) / total;
      }
    });
  });
  const most = shares.reduce((largest, share) => Math.max(largest, share), 0);
  return { steps: histograms.map(({ step }) => step), low, high, rows, shares, most };
}

function clamp(row: number, rows: number): number {
  return Math.min(rows - 1, Math.max(0, row));
}
