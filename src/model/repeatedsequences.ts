/** Sequences that repeat: where the same run of items comes several times in a row. Pure. */

/** `count` times the same `period` items, from `start` on. */
export interface Repeat {
  start: number;
  period: number;
  count: number;
}

const LONGEST_PERIOD = 64;
const LEAST_COUNT = 3;

/**
 * What repeats in a sequence of labels, in its order and without overlap. At each place the repeat that covers most is
 * taken, of several the shortest period. Takes length times `LONGEST_PERIOD` steps.
 */
export function repeatsOf(labels: readonly string[]): Repeat[] {
  const periods = Math.min(LONGEST_PERIOD, Math.floor(labels.length / LEAST_COUNT));
  // matches[p - 1][i]: how many items from i on equal the one p later.
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
