/** One metric of many tasks over time, as a heat map. Pure. */

import type { Line } from './series';
import { type Member, type Spread, spreadOf } from './spread';

/** One row for each task, one column for each interval of x. */
export interface TaskHeat {
  tasks: string[];
  columns: number;
  /** The range of x. */
  start: number;
  end: number;
  /** The mean value of each task in each column, row by row; NaN if the task reported nothing. */
  values: Float64Array;
  /** The values at the ends of the color scale: the 1st and 99th percentiles, or the extremes if these are equal. */
  low: number;
  high: number;
  /** Statistics of the tasks' overall means. */
  spread: Spread;
}

const EDGE = 0.01;

/** The heat map of one metric, for those of `tasks` that report it; null if there are no finite values. */
export function taskHeat(lines: readonly Line[], tasks: readonly string[], most = 240): TaskHeat | null {
  const byTask = new Map(lines.filter(({ task, x }) => task !== '' && x.length > 0).map(line => [line.task, line]));
  const known = tasks.flatMap(task => byTask.get(task) ?? []);
  const start = known.reduce((least, { x }) => Math.min(least, x[0]!), Infinity);
  const end = known.reduce((last, { x }) => Math.max(last, x[x.length - 1]!), -Infinity);
  const longest = known.reduce((count, { x }) => Math.max(count, x.length), 0);
  const columns = Math.min(most, longest);
  const values = new Float64Array(known.length * columns).fill(NaN);
  const means: Member[] = [];
  known.forEach((line, row) => {
    const of = values.subarray(row * columns, (row + 1) * columns);
    means.push({ name: line.task, value: intoColumns(line, start, end, of) });
  });
  const spread = spreadOf(means);
  if (!spread) {
    return null;
  }
  const sorted = values.filter(Number.isFinite).sort();
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))]!;
  const [low, high] = at(EDGE) < at(1 - EDGE) ? [at(EDGE), at(1 - EDGE)] : [sorted[0]!, sorted[sorted.length - 1]!];
  return { tasks: known.map(({ task }) => task), columns, start, end, values, low, high, spread };
}

/** The column that contains an x. */
export function columnOf({ start, end, columns }: Pick<TaskHeat, 'start' | 'end' | 'columns'>, x: number): number {
  const share = end > start ? (x - start) / (end - start) : 0;
  return Math.min(columns - 1, Math.max(0, Math.floor(share * columns)));
}

/** The x at the center of a column. */
export function xOf({ start, end, columns }: TaskHeat, column: number): number {
  return start + ((column + 0.5) / columns) * (end - start);
}

/** The mean over the tasks as a line, where any task has reported. */
export function meanOf(heat: TaskHeat): { x: Float64Array; y: Float64Array } {
  const { tasks, columns, values } = heat;
  const means = Array.from({ length: columns }, (_, column) => {
    let [sum, count] = [0, 0];
    for (let row = 0; row < tasks.length; row++) {
      const value = values[row * columns + column]!;
      if (Number.isFinite(value)) {
        sum += value;
        count += 1;
      }
    }
    return { x: xOf(heat, column), y: count > 0 ? sum / count : NaN };
  }).filter(({ y }) => !Number.isNaN(y));
  return { x: Float64Array.from(means, ({ x }) => x), y: Float64Array.from(means, ({ y }) => y) };
}

/**
 * Fill a task's columns and return the mean of its finite values. Between two points, the value of the earlier one
 * applies.
 */
function intoColumns({ x, y }: Line, start: number, end: number, into: Float64Array): number {
  const counts = new Uint32Array(into.length);
  const place = { start, end, columns: into.length };
  let sum = 0;
  let count = 0;
  let last = -1;
  x.forEach((at, index) => {
    const value = y[index]!;
    const column = columnOf(place, at);
    if (Number.isFinite(value)) {
      sum += value;
      count += 1;
      counts[column]! += 1;
      into[column] = counts[column] === 1 ? value : into[column]! + (value - into[column]!) / counts[column]!;
    }
    last = Math.max(last, column);
  });
  for (let column = 1; column < last; column++) {
    if (counts[column] === 0) {
      into[column] = into[column - 1]!;
    }
  }
  return count > 0 ? sum / count : NaN;
}
