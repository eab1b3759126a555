/** How each task spends its training steps, and which task the others wait for. Pure. */

import { STEP_PARTS } from '../api/schema';
import type { Line } from './series';
import { median } from './spread';

/** In drawing order; they add up to a step. The exchange excludes waiting. */
export const STEP_PART_NAMES = ['compute', 'input', 'exchange', 'wait', 'checkpoint'] as const;
export type StepPart = (typeof STEP_PART_NAMES)[number];

/** A task's step, averaged over the last minute of its reports. */
export interface TaskStep {
  task: string;
  /** Seconds of each measured part. */
  parts: Partial<Record<StepPart, number>>;
  /** Seconds in total. */
  seconds: number;
  /** Whether its own part takes so much longer than the parts of the others that they wait for it. */
  slow: boolean;
}

const [COMPUTE, INPUT, EXCHANGE, WAIT, CHECKPOINT] = Object.keys(STEP_PARTS) as [
  string,
  string,
  string,
  string,
  string
];
// Reports older than this are ignored, s.
const LATELY_S = 60;
// The others wait for a task whose own part of a step takes this many times as long as their parts.
const FAR = 1.25;

/** The tasks that have reported, in the order of `tasks`. */
export function taskStepsOf(lines: readonly Line[], tasks: readonly string[]): TaskStep[] {
  const told = new Map<string, Map<string, number>>();
  for (const { metric, task, x, y } of lines) {
    if (task !== '' && y.length > 0) {
      const value = lately(x, y);
      if (value !== null) {
        told.set(task, (told.get(task) ?? new Map<string, number>()).set(metric, value));
      }
    }
  }
  const steps = tasks.flatMap((task): TaskStep[] => {
    const values = told.get(task);
    return values?.has(COMPUTE) ? [stepOf(task, values)] : [];
  });
  for (const step of steps) {
    const others = steps.filter(other => other !== step && other.parts.wait !== undefined);
    step.slow =
      others.length > 0 &&
      step.parts.wait !== undefined &&
      ownOf(step) > FAR * median(others.map(ownOf)) &&
      step.parts.wait < median(others.map(({ parts }) => parts.wait!));
  }
  return steps;
}

/** Seconds that a task itself needs, regardless of the others. */
export function ownOf({ parts, seconds }: TaskStep): number {
  return seconds - (parts.wait ?? 0);
}

function stepOf(task: string, values: ReadonlyMap<string, number>): TaskStep {
  const exchange = values.get(EXCHANGE);
  const wait = values.get(WAIT);
  const all: Record<StepPart, number | undefined> = {
    compute: values.get(COMPUTE),
    input: values.get(INPUT),
    exchange: exchange === undefined ? undefined : Math.max(0, exchange - (wait ?? 0)),
    wait,
    checkpoint: values.get(CHECKPOINT)
  };
  const parts: TaskStep['parts'] = {};
  let seconds = 0;
  for (const part of STEP_PART_NAMES) {
    const value = all[part];
    if (value !== undefined) {
      parts[part] = value;
      seconds += value;
    }
  }
  return { task, parts, seconds, slow: false };
}

function lately(x: Float64Array, y: Float64Array): number | null {
  const since = x[x.length - 1]! - LATELY_S;
  let sum = 0;
  let count = 0;
  for (let at = y.length - 1; at >= 0 && x[at]! >= since; at--) {
    if (Number.isFinite(y[at])) {
      sum += y[at]!;
      count += 1;
    }
  }
  return count > 0 ? sum / count : null;
}
