/** What a report says, by what of the cluster it is about. Pure. */

import type { ClusterDesign, DesignProblem, DesignReport } from '../api/schema';

/** A task (`worker:1`), a job or a host of a design, by its name; null is the cluster as a whole. */
export type Selection = { kind: 'task' | 'job' | 'host'; name: string } | null;

/** What is wrong with something, in words. */
export interface Said {
  message: string;
  isError: boolean;
}

/** Problems by what they are about. */
export interface SortedProblems {
  tasks: ReadonlyMap<string, Said>;
  jobs: ReadonlyMap<string, Said>;
  hosts: ReadonlyMap<string, Said>;
  /** Those of the cluster as a whole. */
  whole: readonly DesignProblem[];
  of(selection: Selection): readonly DesignProblem[];
}

/** What each task needs of the memory that it has; only where both are known. */
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

/** What the field of a problem is about: a task or job by its name, or a host. */
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

/** Problems by what they are about; those of one thing together in words. */
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
