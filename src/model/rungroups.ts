/** Groups runs by their value in a column, and summarizes each group. Pure. */

import type { RunInfo } from '../api/schema';
import { LESS_IS_BETTER_NAME, MORE_IS_BETTER_NAME, SPEED_METRICS } from '../api/schema';
import { Cell, rowOf } from './runtable';

/** Runs with the same value in a column, in their original order. */
export interface RunGroup {
  /** Identifies the group, regardless of the order of groups. */
  key: string;
  /** Their common value; for `created`, the start of the day; undefined if they have none. */
  value: Cell | undefined;
  runs: readonly RunInfo[];
}

/** A run as a member of a group: one with several tags belongs to several groups. */
export interface GroupedRun {
  run: RunInfo;
  group: string;
}

/**
 * Group runs by their value in a column. The group of the first run comes first, that of runs without a value last. A
 * run is in the group of each of its tags; times are grouped by day in the local time zone.
 */
export function groupedRuns(runs: readonly RunInfo[], column: string): RunGroup[] {
  const found = new Map<string, { value: Cell | undefined; runs: RunInfo[] }>();
  for (const run of runs) {
    for (const value of valuesOf(run, column)) {
      const key = keyOf(value);
      const group = found.get(key);
      if (group) {
        group.runs.push(run);
      } else {
        found.set(key, { value, runs: [run] });
      }
    }
  }
  const groups = [...found].map(([key, group]) => ({ key, ...group }));
  return [...groups.filter(({ value }) => value !== undefined), ...groups.filter(({ value }) => value === undefined)];
}

function keyOf(value: Cell | undefined): string {
  return value === undefined ? '' : `${typeof value} ${value}`;
}

function valuesOf(run: RunInfo, column: string): readonly (Cell | undefined)[] {
  if (column === 'tags') {
    return run.marks.tags.length > 0 ? run.marks.tags : [undefined];
  }
  if (column === 'created') {
    return [new Date(1000 * run.created).setHours(0, 0, 0, 0) / 1000];
  }
  return [rowOf(run).get(column)];
}

const grouped = new WeakMap<RunInfo, Map<string, GroupedRun>>();

/**
 * Each group, followed by its runs if it is open. The same run in the same group is always represented by the same
 * object.
 */
export function groupLines(groups: readonly RunGroup[], open: ReadonlySet<string>): (RunGroup | GroupedRun)[] {
  return groups.flatMap(group => [
    group,
    ...(open.has(group.key) ? group.runs.map(run => inGroup(run, group.key)) : [])
  ]);
}

function inGroup(run: RunInfo, group: string): GroupedRun {
  let known = grouped.get(run);
  if (!known) {
    known = new Map();
    grouped.set(run, known);
  }
  let made = known.get(group);
  if (!made) {
    made = { run, group };
    known.set(group, made);
  }
  return made;
}

/**
 * 1 if larger values of a metric are better, -1 if smaller ones are, 0 if its name indicates neither; the rules are
 * those of `schema/metrics.py`.
 */
export function direction(metric: string): number {
  if (SPEED_METRICS.includes(metric)) {
    return 0;
  }
  return LESS_IS_BETTER_NAME.test(metric) ? -1 : MORE_IS_BETTER_NAME.test(metric) ? 1 : 0;
}

/** A group's summary in a column, and its kind: the value that all runs share, the best, or the newest. */
export interface GroupCell {
  value: Cell;
  is: 'all' | 'best' | 'newest';
}

/** Undefined if its runs have no value there, or no common one. */
export function groupCell(runs: readonly RunInfo[], column: string): GroupCell | undefined {
  if (column === 'created') {
    return { value: Math.max(...extent(runs)), is: 'newest' };
  }
  const sign = /^(last|best)\./.test(column) ? direction(column.slice(5)) : 0;
  if (sign !== 0) {
    let best: number | undefined;
    for (const run of runs) {
      const value = rowOf(run).get(column);
      if (typeof value === 'number' && (best === undefined || sign * value > sign * best)) {
        best = value;
      }
    }
    return best === undefined ? undefined : { value: best, is: 'best' };
  }
  const first = runs[0] && rowOf(runs[0]).get(column);
  const same = first !== undefined && runs.every(run => rowOf(run).get(column) === first);
  return same ? { value: first, is: 'all' } : undefined;
}

function extent(runs: readonly RunInfo[]): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const { created } of runs) {
    low = Math.min(low, created);
    high = Math.max(high, created);
  }
  return [low, high];
}
