/**
 * The tasks of a run and the hosts of a cluster with their metrics; if there are many, those that need attention first.
 * Pure.
 */

import type { HostInfo, RunInfo, TaskInfo } from '../api/schema';
import type { Line } from './series';
import { type Spread, spreadOf } from './spread';
import { exitText } from './runstate';

/** A task with the latest value of each metric. */
export interface RankedTask {
  task: TaskInfo;
  values: ReadonlyMap<string, number>;
  /** The reason why it needs attention: it failed, the others wait for it, or it is an outlier in some metric. */
  remark: 'failed' | 'slow' | 'far' | null;
}

export interface TaskRanking {
  rows: RankedTask[];
  /** Keyed by metric. */
  spreads: ReadonlyMap<string, Spread>;
  /** The number of tasks in each state. */
  states: ReadonlyMap<TaskInfo['state'], number>;
}

const RANKS = ['failed', 'slow', 'far', null] as const;

/** A run's tasks in order; with `sort`, those that need attention first. */
export function rankedTasks(run: RunInfo, lines: readonly Line[], sort: boolean): TaskRanking {
  const values = new Map<string, Map<string, number>>();
  const metrics = new Map<string, { name: string; value: number }[]>();
  for (const { metric, task, y } of lines) {
    if (task !== '' && y.length > 0) {
      const value = y[y.length - 1]!;
      const known = values.get(task) ?? new Map<string, number>();
      values.set(task, known.set(metric, value));
      const members = metrics.get(metric) ?? [];
      members.push({ name: task, value });
      metrics.set(metric, members);
    }
  }
  const spreads = new Map(
    [...metrics].flatMap(([metric, members]) => {
      const spread = spreadOf(members);
      return spread ? [[metric, spread] as const] : [];
    })
  );
  const far = new Set([...spreads.values()].flatMap(({ outliers }) => outliers.map(({ name }) => name)));
  const states = new Map<TaskInfo['state'], number>();
  const rows = run.tasks.map((task): RankedTask => {
    states.set(task.state, (states.get(task.state) ?? 0) + 1);
    const remark =
      task.state === 'failed' || exitText(task) !== ''
        ? 'failed'
        : run.slow[task.task] !== undefined
          ? 'slow'
          : far.has(task.task)
            ? 'far'
            : null;
    return { task, values: values.get(task.task) ?? new Map<string, number>(), remark };
  });
  return { rows: sort ? ranked(rows, row => RANKS.indexOf(row.remark)) : rows, spreads, states };
}

/** Summary statistics of a cluster's hosts. */
export interface HostSpreads {
  cpu: Spread | null;
  memory: Spread | null;
  gpu: Spread | null;
  gpuMemory: Spread | null;
}

export function hostSpreads(hosts: readonly HostInfo[]): HostSpreads {
  const of = (value: (host: HostInfo) => number) =>
    spreadOf(hosts.map(host => ({ name: host.name, value: value(host) })));
  const ofGpus = (value: (gpu: HostInfo['gpus'][number]) => number) =>
    spreadOf(
      hosts.flatMap(host => host.gpus.map(gpu => ({ name: `${host.name} GPU ${gpu.index}`, value: value(gpu) })))
    );
  return {
    cpu: of(host => (host.threads > 0 ? host.cpu / host.threads : NaN)),
    memory: of(host => host.memory_used_bytes),
    gpu: ofGpus(gpu => gpu.utilization),
    gpuMemory: ofGpus(gpu => gpu.memory_used_bytes)
  };
}

/** Hosts with a problem first, then outliers. */
export function rankedHosts(hosts: readonly HostInfo[], { cpu, memory }: HostSpreads): HostInfo[] {
  const far = new Set([cpu, memory].flatMap(spread => spread?.outliers.map(({ name }) => name) ?? []));
  return ranked(hosts, host => (host.problem !== '' ? 0 : far.has(host.name) ? 1 : 2));
}

/** Sort by rank; items of equal rank keep their order. */
function ranked<T>(items: readonly T[], rank: (item: T) => number): T[] {
  return items
    .map((item, index) => ({ item, index, at: rank(item) }))
    .sort((a, b) => a.at - b.at || a.index - b.index)
    .map(({ item }) => item);
}
