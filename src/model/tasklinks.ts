import { PAIR_LOAD, STEP_PARTS, TASK_LOAD } from '../api/schema';
import type { Line } from './series';

/** What one task sends to another on another machine, as it told last: bytes in a step, and the seconds that takes. */
export interface Link {
  from: string;
  to: string;
  bytes: number;
  seconds: number;
  /** It is rid of what it sends far more slowly than tasks are over the other links of the run. */
  slow: boolean;
}

// Of the speed that a quarter of the links exceed, which those of one slow machine are not among.
const SLOW_SHARE = 0.25;
const FAST = 0.75;
// What takes less of a step holds nobody up, s.
const WORTH_TELLING_S = 0.01;
// A pair of which nothing has been told for so long exchanges nothing any more, s.
const STALE_S = 6;
// With fewer there is nothing to compare with.
const FEW = 3;

const [BYTES, SECONDS] = Object.keys(PAIR_LOAD) as [string, string];

/** Whether a metric says what a task takes of its machine, of the network and of time, rather than how the model does. */
export function isLoad(metric: string): boolean {
  return Object.hasOwn(TASK_LOAD, metric) || Object.hasOwn(STEP_PARTS, metric) || isOfPair(metric);
}

/** Whether it is of two tasks: the one that tells it, and the one that it names. */
export function isOfPair(metric: string): boolean {
  return Object.keys(PAIR_LOAD).some(prefix => metric.startsWith(prefix));
}

/** Every pair of tasks of which these lines tell, in the order of `tasks`. */
export function linksOf(lines: readonly Line[], tasks: readonly string[]): Link[] {
  const found = new Map<string, Link>();
  const newest = Math.max(...lines.map(({ x }) => x[x.length - 1] ?? -Infinity));
  for (const { metric, task, x, y } of lines) {
    const prefix = [BYTES, SECONDS].find(each => metric.startsWith(each));
    if (prefix === undefined || task === '' || y.length === 0 || x[x.length - 1]! < newest - STALE_S) {
      continue; // the mean over tasks is of no pair
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

/** Bytes per second while it sends. */
export function speedOf({ bytes, seconds }: Link): number {
  return seconds > 0 ? bytes / seconds : Infinity;
}
