/**
 * Searches, reconstructed from the runs of their trials alone, so that viewers who join late see the same as early
 * ones. Pure.
 */

import type { RunInfo } from '../api/schema';
import { isFinal, reason, secondsTaken } from './runstate';

export type TrialState = 'waiting' | 'running' | 'complete' | 'pruned' | 'stopped' | 'failed';

export interface Trial {
  number: number;
  run: RunInfo;
  state: TrialState;
  /** One for each objective; null if missing. Before a trial is complete, the last value it has reported. */
  values: readonly (number | null)[];
  /** The value of the first objective; for trials without objectives, the metric that represents the run. */
  value: number | null;
  /** The places where it runs: one entry for each task, `0` or `0 · GPU 1`. */
  places: readonly string[];
  /** Why it failed; empty otherwise. */
  error: string;
}

export interface Objective {
  metric: string;
  direction: string;
}

export interface Search {
  id: string;
  name: string;
  cluster: string;
  objectives: readonly Objective[];
  parameters: readonly string[];
  logarithmic: readonly string[];
  /** The planned number of trials; 0 if unknown. */
  most: number;
  /** Sorted by number. */
  trials: readonly Trial[];
  /** Whether more trials can be added while it runs. */
  mayGrow: boolean;
  /** Whether a request to stop it has been made. */
  isAskedToStop: boolean;
  /** Whether any of its trials is active. */
  isRunning: boolean;
  /** The complete trials that no other dominates: one, or the Pareto front if there are several objectives. */
  best: readonly Trial[];
  /** When its newest trial was created, s since the epoch. */
  newest: number;
}

// Trials are cached per run, so that lists can recognize unchanged trials.
const known = new WeakMap<RunInfo, Trial>();

/** A run as a trial; null if it is not one. */
export function trialOf(run: RunInfo): Trial | null {
  if (!run.trial) {
    return null;
  }
  let trial = known.get(run);
  if (!trial) {
    trial = made(run);
    known.set(run, trial);
  }
  return trial;
}

function made(run: RunInfo): Trial {
  const { objectives, number } = run.trial!;
  const metrics = Object.keys(objectives);
  const told = metrics.map(metric => (Object.hasOwn(run.values, metric) ? run.values[metric]! : run.latest[metric]));
  const values = told.map(value => (typeof value === 'number' ? value : null));
  const missing = metrics.filter((_, index) => values[index] === null);
  const state = stateOf(run, missing.length > 0);
  const odd = run.state === 'succeeded' && missing.length > 0 ? `It has no ${missing.join(', no ')}` : '';
  const [first] = metrics.length > 0 ? values : Object.values(run.headline);
  return {
    number,
    run,
    state,
    values,
    value: first ?? null,
    places: run.tasks
      .filter(task => task.host !== '')
      .map(({ host, gpus }) => (gpus.length > 0 ? `${host} · GPU ${gpus.join(', ')}` : host)),
    error: state === 'failed' ? odd || reason(run) || run.state : ''
  };
}

function stateOf(run: RunInfo, lacksValue: boolean): TrialState {
  switch (run.state) {
    case 'succeeded':
      return lacksValue ? 'failed' : 'complete';
    case 'stopped':
      return run.pruned ? 'pruned' : 'stopped';
    case 'failed':
    case 'lost':
      return 'failed';
    case 'pending':
      return 'waiting';
    default:
      return 'running';
  }
}

/** All searches with at least one run, the one with the newest trial first. */
export function searchesOf(runs: readonly RunInfo[]): Search[] {
  const grouped = new Map<string, Trial[]>();
  for (const run of runs) {
    const trial = trialOf(run);
    if (trial) {
      const { search } = run.trial!;
      const trials = grouped.get(search);
      if (trials) {
        trials.push(trial);
      } else {
        grouped.set(search, [trial]);
      }
    }
  }
  return [...grouped].map(([id, trials]) => gathered(id, trials)).sort((a, b) => b.newest - a.newest);
}

function gathered(id: string, trials: Trial[]): Search {
  trials.sort((a, b) => a.number - b.number || a.run.created - b.run.created);
  const { run } = trials[trials.length - 1]!;
  const told = run.trial!;
  const objectives = Object.entries(told.objectives).map(([metric, direction]) => ({ metric, direction }));
  return {
    id,
    name: told.name,
    cluster: run.cluster,
    objectives,
    parameters: told.parameters.length > 0 ? told.parameters : Object.keys(run.parameters),
    logarithmic: told.logarithmic,
    most: Math.max(...trials.map(trial => trial.run.trial!.most + trial.run.trial!.asked_more)),
    mayGrow: told.may_grow,
    isAskedToStop: trials.some(trial => trial.run.trial!.asked_stop && !isFinal(trial.run.state)),
    trials,
    isRunning: trials.some(trial => !isFinal(trial.run.state)),
    best: bestOf(trials, objectives),
    newest: Math.max(...trials.map(trial => trial.run.created))
  };
}

/** 1 if larger is worse, otherwise -1. */
export function signOf(objective: Objective | undefined): number {
  return objective?.direction === 'maximize' ? -1 : 1;
}

function bestOf(trials: readonly Trial[], objectives: readonly Objective[]): Trial[] {
  if (objectives.length === 0) {
    return [];
  }
  const signs = objectives.map(signOf);
  const costs = (trial: Trial) => trial.values.map((value, index) => signs[index]! * value!);
  const complete = trials.filter(trial => trial.state === 'complete').map(trial => [trial, costs(trial)] as const);
  if (objectives.length === 1) {
    // The first of equally good trials.
    const best = complete.reduce<(typeof complete)[number] | null>(
      (found, each) => (found === null || each[1][0]! < found[1][0]! ? each : found),
      null
    );
    return best ? [best[0]] : [];
  }
  const beats = (one: readonly number[], other: readonly number[]) =>
    one.every((cost, index) => cost <= other[index]!) && one.some((cost, index) => cost < other[index]!);
  return complete.filter(([, own]) => !complete.some(([, other]) => beats(other, own))).map(([trial]) => trial);
}

/** The number of trials in each state that occurs. */
export function countsOf(trials: readonly Trial[]): Map<TrialState, number> {
  const counts = new Map<TrialState, number>();
  trials.forEach(({ state }) => counts.set(state, (counts.get(state) ?? 0) + 1));
  return counts;
}

/** The column by which a table is sorted: a parameter, an objective by index, or another property of trials. */
export type Column =
  | { of: 'number' | 'state' | 'duration' | 'places' }
  | { of: 'parameter'; name: string }
  | { of: 'objective'; index: number };

/** A trial's value in a column; null if it has none. */
export function cellOf(trial: Trial, column: Column): unknown {
  switch (column.of) {
    case 'number':
      return trial.number;
    case 'state':
      return trial.state;
    case 'duration':
      return trial.run.started === null ? null : isFinal(trial.run.state) ? secondsTaken(trial.run, 0) : Infinity;
    case 'places':
      return trial.places.join(', ') || null;
    case 'parameter':
      return trial.run.parameters[column.name] ?? null;
    case 'objective':
      return trial.values.length > 0 ? (trial.values[column.index] ?? null) : trial.value;
  }
}

/** Sort by a column, then by number; trials without a value come last in either direction. */
export function sorted(trials: readonly Trial[], column: Column, descending: boolean): Trial[] {
  const keyed = trials.map(trial => [cellOf(trial, column), trial] as const);
  const sign = descending ? -1 : 1;
  return keyed
    .sort(([a, one], [b, other]) => {
      if (a === null || b === null) {
        return Number(a === null) - Number(b === null) || one.number - other.number;
      }
      return sign * compared(a, b) || one.number - other.number;
    })
    .map(([, trial]) => trial);
}

function compared(a: unknown, b: unknown): number {
  if (typeof a === 'number' && typeof b === 'number') {
    return a - b || 0;
  }
  const [one, other] = [String(a), String(b)];
  return one < other ? -1 : Number(one > other);
}

/** A trial's parameters as an assignment in Python. */
export function parametersCode({ run }: Trial): string {
  const words = run.trial?.in_words ?? [];
  const lines = Object.entries(run.parameters).map(
    ([name, value]) => `    ${literal(name)}: ${words.includes(name) ? String(value) : literal(value)},`
  );
  return `params = {\n${lines.join('\n')}\n}`;
}

function literal(value: unknown): string {
  if (value === null || value === undefined) {
    return 'None';
  }
  return typeof value === 'boolean' ? (value ? 'True' : 'False') : JSON.stringify(value);
}

/** A value as text for a cell. */
export function parameterText(value: unknown, format: (value: number) => string): string {
  if (value === undefined) {
    return '';
  }
  return typeof value === 'number' ? format(value) : typeof value === 'string' ? value : literal(value);
}

/** The reported steps and values of a trial's representative metric, as far as its summary contains them. */
export function curveOf({ run }: Trial): readonly (readonly [number, number])[] {
  const { sparkline, sparkline_steps: steps } = run;
  const [first, last] = [steps[0] ?? 0, steps[1] ?? sparkline.length - 1];
  const between = sparkline.length > 1 ? (last - first) / (sparkline.length - 1) : 0;
  return sparkline.map((value, index) => [first + index * between, value] as const);
}

/** One bar of the timeline. */
export interface Bar {
  trial: Trial;
  start: number;
  end: number;
  lane: number;
}

/** The trials that ran at one place, in several lanes if they overlapped. Times in s since the epoch. */
export interface PlaceRow {
  place: string;
  bars: readonly Bar[];
  lanes: number;
  /** The fraction of the time from the first start to the last end in which its lanes were busy. */
  busy: number;
}

/**
 * The longest overlap in seconds of two trials that had the same slot one after the other: a trial starts when the
 * program of the one before has ended, and the process of that one ends a little later.
 */
const HANDOVER_S = 0.05;

/** The trials that ran at each place, as bars over time up to `now`. */
export function timelineOf(trials: readonly Trial[], now: number): { rows: PlaceRow[]; start: number; end: number } {
  const bars = new Map<string, Bar[]>();
  const ends = new Map<string, number[]>(); // end of the last bar in each lane; the bars of a lane do not overlap
  let [start, end] = [Infinity, -Infinity];
  for (const trial of [...trials].sort((a, b) => (a.run.started ?? 0) - (b.run.started ?? 0))) {
    const { started } = trial.run;
    if (started === null) {
      continue;
    }
    const until = Math.max(started, trial.run.ended ?? now);
    [start, end] = [Math.min(start, started), Math.max(end, until)];
    for (const place of trial.places) {
      const there = bars.get(place) ?? [];
      bars.set(place, there);
      const lanes = ends.get(place) ?? [];
      ends.set(place, lanes);
      const free = lanes.findIndex(last => last <= started + HANDOVER_S);
      const lane = free < 0 ? lanes.length : free;
      const from = Math.max(started, lanes[lane] ?? 0);
      lanes[lane] = Math.max(from, until);
      there.push({ trial, start: from, end: lanes[lane], lane });
    }
  }
  const rows = [...bars]
    .sort(([a], [b]) => a.localeCompare(b, undefined, { numeric: true }))
    .map(([place, there]) => {
      const lanes = ends.get(place)!.length;
      const work = there.reduce((sum, bar) => sum + bar.end - bar.start, 0);
      return { place, bars: there, lanes, busy: end > start ? work / (lanes * (end - start)) : 0 };
    });
  return { rows, start, end };
}
