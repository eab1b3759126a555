/** Finds sequences of items that are repeated several times in a row. Pure. */

/** The same `period` items, `count` times, beginning at `start`. */
export interface Repeat {
  start: number;
  period: number;
  count: number;
}

const LONGEST_PERIOD = 64;
const LEAST_COUNT = 3;

/**
 * The non-overlapping repeats in a sequence of labels, in order. At each position the repeat that covers the most items
 * is chosen; among equals, the one with the shortest period. Takes O(length × `LONGEST_PERIOD`) time.
 */
export function repeatsOf(labels: readonly string[]): Repeat[] {
  const periods = Math.min(LONGEST_PERIOD, Math.floor(labels.length / LEAST_COUNT));
  // matches[p - 1][i]: how many consecutive items from i on equal the item p positions later.
  const matches: Int32Array[] = [];
  for (let period = 1; period <= periods; period++) {
    const lengths = new Int32Array(labels.length);
    for (let index = labels.length - period - 1; index >= 0; index--) {
      lengths[index] = labels[index] === labels[index + period] ? lengths[index + 1]! + 1 : 0;
    }
    matches.push(lengths);
  }
  const found: Repeat[] = [];
  for (let start = 0; start < labels.length;) {
    let best: Repeat | null = null;
    for (let period = 1; period <= periods; period++) {
      const count = Math.floor(matches[period - 1]![start]! / period) + 1;
      if (count >= LEAST_COUNT && (!best || count * period > best.count * best.period)) {
        best = { start, period, count };
      }
    }
    if (best) {
      found.push(best);
      start += best.period * best.count;
    } else {
      start += 1;
    }
  }
  return found;
}
