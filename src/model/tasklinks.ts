import { PAIR_LOAD, STEP_PARTS, TASK_LOAD } from '../api/schema';
import type { Line } from './series';

/**
 * The traffic from one task to another on a different machine, as last reported: bytes per step, and the seconds it
 * takes.
 */
export interface Link {
  from: string;
  to: string;
  bytes: number;
  seconds: number;
  /** Whether it is far slower than the run's other links. */
  slow: boolean;
}

// Relative to the speed that a quarter of the links exceed, which a single slow machine cannot distort.
const SLOW_SHARE = 0.25;
const FAST = 0.75;
// Transfers that take less time per step than this delay no task, s.
const WORTH_TELLING_S = 0.01;
// A pair without reports for this long no longer exchanges data, s.
const STALE_S = 6;
// With fewer links there is nothing to compare with.
const FEW = 3;

const [BYTES, SECONDS] = Object.keys(PAIR_LOAD) as [string, string];

/** Whether a metric measures a task's use of the machine, the network or time, rather than the model's quality. */
export function isLoad(metric: string): boolean {
  return Object.hasOwn(TASK_LOAD, metric) || Object.hasOwn(STEP_PARTS, metric) || isOfPair(metric);
}

/** Whether a metric concerns a pair of tasks: the task that reports it and the task in its name. */
export function isOfPair(metric: string): boolean {
  return Object.keys(PAIR_LOAD).some(prefix => metric.startsWith(prefix));
}

/** All pairs of tasks in these lines, in the order of `tasks`. */
export function linksOf(lines: readonly Line[], tasks: readonly string[]): Link[] {
  const found = new Map<string, Link>();
  const newest = Math.max(...lines.map(({ x }) => x[x.length - 1] ?? -Infinity));
  for (const { metric, task, x, y } of lines) {
    const prefix = [BYTES, SECONDS].find(each => metric.startsWith(each));
    if (prefix === undefined || task === '' || y.length === 0 || x[x.length - 1]! < newest - STALE_S) {
      continue; // the mean over tasks does not belong to a pair
    }
    const to = metric.slice(prefix.length);
    const key = JSON.stringify([task, to]);
    const link = found.get(key) ?? { from: task, to, bytes: 0, seconds: 0, slow: false };
    link[prefix === BYTES ? 'bytes' : 'seconds'] = y[y.length - 1]!;
    found.set(key, link);
  }
  const links = [...found.values()];
  const speeds = links.map(speedOf).sort((a, b) => a - b);
  const fast = speeds[Math.ceil(FAST * (speeds.length - 1))] ?? 0;
  for (const link of links) {
    link.slow = links.length >= FEW && link.seconds >= WORTH_TELLING_S && speedOf(link) < SLOW_SHARE * fast;
  }
  const place = (task: string) => tasks.indexOf(task);
  return links.sort((a, b) => place(a.from) - place(b.from) || place(a.to) - place(b.to));
}

/** Bytes per second while sending. */
export function speedOf({ bytes, seconds }: Link): number {
  return seconds > 0 ? bytes / seconds : Infinity;
}
