/** Groups the problems of a report by the part of the cluster that they concern. Pure. */

import type { ClusterDesign, DesignProblem, DesignReport } from '../api/schema';

/** A task (`worker:1`), a job or a host of a design, by name; null for the cluster as a whole. */
export type Selection = { kind: 'task' | 'job' | 'host'; name: string } | null;

/** The problems of one item, as text. */
export interface Said {
  message: string;
  isError: boolean;
}

/** Problems grouped by the item that they concern. */
export interface SortedProblems {
  tasks: ReadonlyMap<string, Said>;
  jobs: ReadonlyMap<string, Said>;
  hosts: ReadonlyMap<string, Said>;
  /** Problems of the cluster as a whole. */
  whole: readonly DesignProblem[];
  of(selection: Selection): readonly DesignProblem[];
}

/** Each task's memory requirement relative to its available memory; only where both are known. */
export function memoryOfTasks(report: DesignReport | null): Map<string, number> {
  const loads = new Map(report?.prediction?.devices.map(load => [load.device, load]));
  const found = new Map<string, number>();
  for (const [task, device] of Object.entries(report?.devices ?? {})) {
    const load = loads.get(device);
    if (load && load.memory_limit_bytes > 0) {
      found.set(task, load.memory_bytes / load.memory_limit_bytes);
    }
  }
  return found;
}

/** The item to which the field of a problem refers: a task or job by name, or a host. */
export function selectionOf(problem: DesignProblem, cluster: Readonly<ClusterDesign>): Selection {
  const [, list, number] = /^cluster\.(tasks|hosts)\[(\d+)\]/.exec(problem.field) ?? [];
  const place = list === 'tasks' ? cluster.tasks[Number(number)] : undefined;
  if (place) {
    return { kind: 'task', name: `${place.job}:${place.index}` };
  }
  const host = list === 'hosts' ? cluster.hosts[Number(number)] : undefined;
  if (host) {
    return { kind: 'host', name: host.name };
  }
  const job = /^cluster\.jobs\.(.+)$/.exec(problem.field)?.[1];
  return job === undefined ? null : { kind: 'job', name: job };
}

/** Group problems by the item that they concern; the problems of each item are joined into one text. */
export function sortProblems(problems: readonly DesignProblem[], cluster: Readonly<ClusterDesign>): SortedProblems {
  const maps = { task: new Map<string, Said>(), job: new Map<string, Said>(), host: new Map<string, Said>() };
  const whole: DesignProblem[] = [];
  const known: { about: NonNullable<Selection>; problem: DesignProblem }[] = [];
  for (const problem of problems) {
    const about = selectionOf(problem, cluster);
    if (about) {
      const { kind, name } = about;
      const before = maps[kind].get(name);
      maps[kind].set(name, {
        message: before ? `${before.message}; ${problem.message}` : problem.message,
        isError: problem.level === 'error' || (before?.isError ?? false)
      });
      known.push({ about, problem });
    } else if (problem.field.startsWith('cluster.')) {
      whole.push(problem);
    }
  }
  const of = (selection: Selection) =>
    known
      .filter(({ about }) => about.kind === selection?.kind && about.name === selection.name)
      .map(({ problem }) => problem);
  return { tasks: maps.task, jobs: maps.job, hosts: maps.host, whole, of };
}
