/**
 * The axes of a search: parameters and objectives scaled to 0–1, brushed ranges, and associations between them. Pure.
 */

import { Objective, Search, signOf, Trial } from './search';

/** A numerical axis, linear or logarithmic, or a categorical one. */
export interface Axis {
  id: string;
  title: string;
  read: (trial: Trial) => unknown;
  kind: 'linear' | 'log' | 'choices';
  /** The smallest and the largest value. */
  low: number;
  high: number;
  choices: readonly string[];
}

/** The selection on an axis: a range of numbers, or one category. */
export type Brush = { low: number; high: number } | { choice: string };

export type Brushes = ReadonlyMap<string, Brush>;

export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}

/** The axes of all parameters, followed by those of all objectives. */
export function axesOf(search: Search): Axis[] {
  return [
    ...search.parameters.map(name =>
      axis(
        `parameter ${name}`,
        name,
        search.trials,
        trial => trial.run.parameters[name],
        search.logarithmic.includes(name)
      )
    ),
    ...search.objectives.map(({ metric }, index) =>
      axis(`objective ${metric}`, metric, search.trials, trial => trial.values[index] ?? undefined, false)
    )
  ];
}

function axis(
  id: string,
  title: string,
  trials: readonly Trial[],
  read: (trial: Trial) => unknown,
  log: boolean
): Axis {
  const values = trials.map(read).filter(value => value !== undefined);
  const numbers = values.filter((value): value is number => typeof value === 'number' && Number.isFinite(value));
  if (numbers.length < values.length) {
    const choices = [...new Set(values.map(textOf))].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    return { id, title, read, kind: 'choices', low: 0, high: 0, choices };
  }
  const [low, high] = numbers.length > 0 ? extent(numbers) : [0, 1];
  return { id, title, read, kind: log && low > 0 ? 'log' : 'linear', low, high, choices: [] };
}

/** The minimum and maximum; there may be too many values to pass as arguments. */
export function extent(numbers: readonly number[]): [number, number] {
  return numbers.reduce<[number, number]>(
    ([low, high], value) => [Math.min(low, value), Math.max(high, value)],
    [Infinity, -Infinity]
  );
}

/** A value's position on its axis, 0 to 1; null if it is not on the axis. */
export function placeOf(of: Axis, value: unknown): number | null {
  if (value === undefined || value === null) {
    return null;
  }
  if (of.kind === 'choices') {
    const index = of.choices.indexOf(textOf(value));
    return index < 0 ? null : (index + 0.5) / of.choices.length;
  }
  if (typeof value !== 'number' || !Number.isFinite(value) || (of.kind === 'log' && value <= 0)) {
    return null;
  }
  const scale = of.kind === 'log' ? Math.log : (number: number) => number;
  const [low, high] = [scale(of.low), scale(of.high)];
  return high > low ? (scale(value) - low) / (high - low) : 0.5;
}

/** The number at a position of a numerical axis. */
export function valueAt(of: Axis, place: number): number {
  const part = Math.min(1, Math.max(0, place));
  return of.kind === 'log' ? of.low * (of.high / of.low) ** part : of.low + part * (of.high - of.low);
}

/** The category at a position of a categorical axis. */
export function choiceAt(of: Axis, place: number): string {
  const index = Math.floor(Math.min(1, Math.max(0, place)) * of.choices.length);
  return of.choices[Math.min(of.choices.length - 1, index)] ?? '';
}

/** A few positions of an axis with their labels. */
export function ticksOf(of: Axis, format: (value: number) => string): { place: number; text: string }[] {
  if (of.kind === 'choices') {
    return of.choices.map((text, index) => ({ place: (index + 0.5) / of.choices.length, text }));
  }
  if (of.low === of.high) {
    return [{ place: 0.5, text: format(of.low) }];
  }
  return [0, 0.25, 0.5, 0.75, 1].map(place => ({ place, text: format(valueAt(of, place)) }));
}

/**
 * Roughly this many round numbers along a numerical axis; whole powers of ten on a logarithmic axis of several decades.
 */
export function roundTicks(
  of: Axis,
  about: number,
  format: (value: number) => string
): { place: number; text: string }[] {
  if (of.kind === 'choices' || !(of.high > of.low)) {
    return ticksOf(of, format);
  }
  if (of.kind === 'log') {
    const [first, last] = [Math.ceil(Math.log10(of.low) - 1e-9), Math.floor(Math.log10(of.high) + 1e-9)];
    if (last - first < 1) {
      return ticksOf(of, format);
    }
    const every = Math.ceil((last - first + 1) / Math.max(2, about));
    return Array.from({ length: last - first + 1 }, (_, index) => first + index)
      .filter(power => (power - first) % every === 0)
      .map(power => Number(`1e${power}`)) // `10 ** -4` is not exactly 0.0001
      .map(value => ({ place: placeOf(of, value)!, text: format(value) }));
  }
  return roundValues(of.low, of.high, about).map(value => ({ place: placeOf(of, value)!, text: format(value) }));
}

/** About `about` multiples of 1, 2 or 5 times a power of ten in a range of numbers. */
export function roundValues(low: number, high: number, about: number): number[] {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find(factor => factor * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.max(0, Math.floor(high / step + 1e-9) - first + 1);
  return Array.from({ length: count }, (_, index) => Number(((first + index) * step).toPrecision(12)));
}

/** Whether a trial is within the brushes of all axes. */
export function isChosen(trial: Trial, axes: readonly Axis[], brushes: Brushes): boolean {
  return axes.every(each => {
    const brush = brushes.get(each.id);
    const value = each.read(trial);
    if (!brush) {
      return true;
    }
    if ('choice' in brush) {
      return value !== undefined && textOf(value) === brush.choice;
    }
    return typeof value === 'number' && value >= brush.low && value <= brush.high;
  });
}

/**
 * The brush that selects the best tenth of the complete trials by the first objective, at least one trial; null if
 * there are none.
 */
export function bestTenth(search: Search): Brush | null {
  const sign = signOf(search.objectives[0]);
  const values = search.trials
    .filter(trial => trial.state === 'complete' && search.objectives.length > 0)
    .map(trial => trial.value!)
    .sort((a, b) => sign * (a - b));
  if (values.length === 0) {
    return null;
  }
  const last = values[Math.max(0, Math.ceil(values.length / 10) - 1)]!;
  const [low, high] = [Math.min(values[0]!, last), Math.max(values[0]!, last)];
  return { low, high };
}

/** The strength of the association of a parameter with the objective, based on ranks. */
export interface Association {
  name: string;
  /** 0 to 1. */
  strength: number;
  /** For numbers: whether larger or smaller values tend to be better. For categories: null. */
  better: 'larger' | 'smaller' | null;
}

const FEWEST = 4;

/**
 * The association of each parameter with the objective over the complete trials, the strongest first: Spearman's rank
 * correlation for numbers, the correlation ratio of the ranks for categories. Empty if there are too few trials.
 */
export function associations(search: Search, index = 0): Association[] {
  const objective: Objective | undefined = search.objectives[index];
  const complete = search.trials.filter(trial => trial.state === 'complete');
  if (!objective || complete.length < FEWEST) {
    return [];
  }
  const goodness = ranks(complete.map(trial => -signOf(objective) * trial.values[index]!));
  return search.parameters
    .map(name => {
      const values = complete.map(trial => trial.run.parameters[name]);
      if (values.every((value): value is number => typeof value === 'number')) {
        const found = correlation(ranks(values), goodness);
        return { name, strength: Math.abs(found), better: found >= 0 ? ('larger' as const) : ('smaller' as const) };
      }
      return { name, strength: correlationRatio(values.map(textOf), goodness), better: null };
    })
    .sort((a, b) => b.strength - a.strength);
}

/** The rank of each value, from 1; equal values share their mean rank. */
export function ranks(values: readonly number[]): number[] {
  const order = values.map((_, index) => index).sort((a, b) => values[a]! - values[b]! || 0);
  const found = new Array<number>(values.length);
  for (let first = 0; first < order.length;) {
    let last = first;
    while (last + 1 < order.length && values[order[last + 1]!] === values[order[first]!]) {
      last += 1;
    }
    for (let place = first; place <= last; place++) {
      found[order[place]!] = (first + last) / 2 + 1;
    }
    first = last + 1;
  }
  return found;
}

function correlation(xs: readonly number[], ys: readonly number[]): number {
  const [x, y] = [mean(xs), mean(ys)];
  const [along, xx, yy] = xs.reduce(
    ([sum, a, b], value, index) => {
      const [dx, dy] = [value - x, ys[index]! - y];
      return [sum + dx * dy, a + dx * dx, b + dy * dy] as [number, number, number];
    },
    [0, 0, 0] as [number, number, number]
  );
  return xx > 0 && yy > 0 ? along / Math.sqrt(xx * yy) : 0;
}

function correlationRatio(groups: readonly string[], ys: readonly number[]): number {
  const whole = mean(ys);
  const members = new Map<string, number[]>();
  groups.forEach((group, index) => members.set(group, [...(members.get(group) ?? []), ys[index]!]));
  const between = [...members.values()].reduce((sum, each) => sum + each.length * (mean(each) - whole) ** 2, 0);
  const total = ys.reduce((sum, value) => sum + (value - whole) ** 2, 0);
  return total > 0 ? Math.sqrt(between / total) : 0;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
