/** Summary statistics of one metric over many tasks or hosts: mean, standard deviation and outliers. Pure. */

/** The value of one task or host. */
export interface Member {
  name: string;
  value: number;
}

export interface Spread {
  count: number;
  mean: number;
  /** The standard deviation. */
  deviation: number;
  low: Member;
  high: Member;
  /** Members far from the others, the farthest first. */
  outliers: Member[];
}

/** A table or a row of bars with at least this many members is summarized. */
export const MANY = 24;
// Modified z-score (Iglewicz and Hoaglin, 1993); their threshold of 3.5 would flag a few out of a thousand by chance
// alone.
const FAR = 6;
const PER_DEVIATION = 1.4826;
// Differences below this fraction of the median are ignored, however similar the others are.
const LEAST_SHARE = 0.02;

/** Statistics of the finite values; null if there are none. */
export function spreadOf(members: readonly Member[]): Spread | null {
  const known = members.filter(({ value }) => Number.isFinite(value));
  if (known.length === 0) {
    return null;
  }
  const mean = known.reduce((sum, { value }) => sum + value, 0) / known.length;
  const square = known.reduce((sum, { value }) => sum + (value - mean) ** 2, 0) / known.length;
  const middle = median(known.map(({ value }) => value));
  const away = ({ value }: Member) => Math.abs(value - middle);
  const usual = Math.max(PER_DEVIATION * median(known.map(away)), (LEAST_SHARE * Math.abs(middle)) / FAR);
  const far = known.filter(member => away(member) > FAR * usual);
  return {
    count: known.length,
    mean,
    deviation: Math.sqrt(square),
    low: known.reduce((least, one) => (one.value < least.value ? one : least)),
    high: known.reduce((most, one) => (one.value > most.value ? one : most)),
    // If many members are far away, there is no majority to be far from.
    outliers: far.length > known.length / 10 ? [] : far.sort((a, b) => away(b) - away(a))
  };
}

/** The median of a non-empty list. */
export function median(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

/**
 * Names that end in numbers, condensed to ranges in the order of their first member: `worker:0–7, 12` for several,
 * `ps:0` for one.
 */
export function rangesOf(names: readonly string[]): string {
  const parts: string[] = [];
  let stem: string | null = null;
  let first = 0;
  let last = 0;
  const close = () => {
    if (stem !== null) {
      const range = first === last ? String(first) : `${first}–${last}`;
      const goesOn = parts.length > 0 && before === stem;
      parts.push(goesOn ? range : `${stem}${range}`);
      before = stem;
    }
  };
  let before: string | null = null;
  for (const name of names) {
    const [, head, digits] = /^(.*?)(\d+)$/.exec(name) ?? [];
    if (head === undefined || digits === undefined || String(Number(digits)) !== digits) {
      close();
      [stem, before] = [null, null];
      parts.push(name);
    } else if (head === stem && Number(digits) === last + 1) {
      last += 1;
    } else {
      close();
      [stem, first, last] = [head, Number(digits), Number(digits)];
    }
  }
  close();
  return parts.join(', ');
}
