/**
 * The cluster half of a design: hosts with devices, and tasks placed on them. Pure; functions that change a design take
 * a draft of it.
 */

import {
  type ClusterDesign,
  type ClusterInfo,
  type ClusterRequest,
  CPU_JOBS,
  type Design,
  FIRST_JOBS,
  type HostDesign,
  type HostInfo,
  JOB_NAME,
  MAX_TASKS_PER_JOB,
  type TaskPlace,
  USUAL_JOBS
} from '../api/schema';
import { emptyDesign } from './designtext';

/** One task of the design. `task` is its short name, `worker:1`. */
export interface DesignTask {
  task: string;
  job: string;
  index: number;
  place: TaskPlace | undefined;
  /** Whether the task is placed on a device of the drawing. */
  isDrawn: boolean;
}

/** A device of a host that tasks can be placed on. */
export interface HostDevice {
  host: string;
  /** `CPU` or `GPU:1`. */
  device: string;
  /** 0 if unknown. */
  memory_bytes: number;
}

/** The jobs in order of rank: chief, worker, others by name, ps, evaluator. */
export function rankedJobs(jobs: Readonly<Record<string, number>>): string[] {
  const others = Object.keys(jobs)
    .filter(job => !FIRST_JOBS.includes(job) && !CPU_JOBS.includes(job))
    .sort();
  return [...FIRST_JOBS, ...others, ...CPU_JOBS].filter(job => Object.hasOwn(jobs, job));
}

/**
 * All tasks in order of rank, which also determines their colors. If a job claims more tasks than the maximum, only
 * the maximum is returned.
 */
export function tasksOf(cluster: Readonly<ClusterDesign>): DesignTask[] {
  const places = new Map(cluster.tasks.map(place => [`${place.job}:${place.index}`, place]));
  const drawn = new Set(devicesOf(cluster).map(({ host, device }) => `${host}/${device}`));
  return rankedJobs(cluster.jobs).flatMap(job =>
    Array.from({ length: Math.max(0, Math.min(cluster.jobs[job]!, MAX_TASKS_PER_JOB)) }, (_, index) => {
      const task = `${job}:${index}`;
      const place = places.get(task);
      return { task, job, index, place, isDrawn: place !== undefined && drawn.has(`${place.host}/${place.device}`) };
    })
  );
}

/** A host's devices, the CPU first. */
export function devicesOfHost(host: Readonly<HostDesign>): HostDevice[] {
  return [
    { host: host.name, device: 'CPU', memory_bytes: host.memory_bytes },
    ...host.gpus.map((memory_bytes, number) => ({ host: host.name, device: `GPU:${number}`, memory_bytes }))
  ];
}

/** All devices, grouped by host. */
export function devicesOf(cluster: Readonly<ClusterDesign>): HostDevice[] {
  return cluster.hosts.flatMap(devicesOfHost);
}

/** Place a task on a device. Its memory cap is kept if the device stays the same. */
export function putTask(draft: ClusterDesign, task: string, host: string, device: string): void {
  const [job, index] = partsOf(task);
  const known = draft.tasks.find(place => place.job === job && place.index === index);
  if (known) {
    const same = known.host === host && known.device === device;
    Object.assign(known, { host, device, memory_bytes: same ? known.memory_bytes : 0 });
  } else {
    draft.tasks.push({ job, index, host, device, memory_bytes: 0 });
    sortPlaces(draft);
  }
}

/** Remove a task from its device: it will be placed on any host with enough capacity. */
export function freeTask(draft: ClusterDesign, task: string): void {
  draft.tasks = draft.tasks.filter(place => `${place.job}:${place.index}` !== task);
}

/** Set the memory limit of a placed task; 0 means all of the device's memory. */
export function capTask(draft: ClusterDesign, task: string, memoryBytes: number): void {
  const place = draft.tasks.find(({ job, index }) => `${job}:${index}` === task);
  if (place) {
    place.memory_bytes = memoryBytes;
  }
}

/** Place all tasks of a job on devices in turn: `ps` and `evaluator` on CPUs, others on GPUs if there are any. */
export function layOut(draft: ClusterDesign, job: string): void {
  const devices = devicesOf(draft);
  const gpus = CPU_JOBS.includes(job) ? [] : devices.filter(({ device }) => device !== 'CPU');
  const turns = gpus.length > 0 ? gpus : devices.filter(({ device }) => device === 'CPU');
  if (turns.length === 0) {
    return;
  }
  for (let index = 0; index < (draft.jobs[job] ?? 0); index++) {
    const { host, device } = turns[index % turns.length]!;
    putTask(draft, `${job}:${index}`, host, device);
  }
}

/** Place all tasks of a job on one device. */
export function putJob(draft: ClusterDesign, job: string, host: string, device: string): void {
  for (let index = 0; index < (draft.jobs[job] ?? 0); index++) {
    putTask(draft, `${job}:${index}`, host, device);
  }
}

/** Set the number of tasks of a job. The placements of removed tasks are dropped. */
export function setCount(draft: ClusterDesign, job: string, count: number): void {
  draft.jobs[job] = count;
  draft.tasks = draft.tasks.filter(place => place.job !== job || place.index < count);
}

/** Add one of the usual jobs that the cluster does not have yet, with one task; returns its name. */
export function addJob(draft: ClusterDesign): string {
  let job = USUAL_JOBS.find(name => !Object.hasOwn(draft.jobs, name));
  for (let number = 0; job === undefined; number++) {
    job = Object.hasOwn(draft.jobs, `job${number}`) ? undefined : `job${number}`;
  }
  draft.jobs[job] = 1;
  return job;
}

export function removeJob(draft: ClusterDesign, job: string): void {
  delete draft.jobs[job];
  draft.tasks = draft.tasks.filter(place => place.job !== job);
}

export function renameJob(draft: ClusterDesign, from: string, to: string): void {
  draft.jobs = Object.fromEntries(Object.entries(draft.jobs).map(([job, count]) => [job === from ? to : job, count]));
  for (const place of draft.tasks) {
    place.job = place.job === from ? to : place.job;
  }
  sortPlaces(draft);
}

/** Add a host with an unused name; returns the name. */
export function addHost(draft: ClusterDesign, host: Partial<HostDesign> = {}): string {
  const name = freeName(draft, host.name ?? 'host-0');
  draft.hosts.push({ cpus: 1, memory_bytes: 0, gpus: [], ...host, name });
  return name;
}

/** Remove a host. Its tasks will be placed on any host with enough capacity. */
export function removeHost(draft: ClusterDesign, name: string): void {
  draft.hosts = draft.hosts.filter(host => host.name !== name);
  draft.tasks = draft.tasks.filter(place => place.host !== name);
}

/**
 * Change a host. Its tasks follow a new name; tasks on removed GPUs will be placed on any host with enough capacity.
 */
export function changeHost(draft: ClusterDesign, name: string, change: Partial<HostDesign>): void {
  const host = draft.hosts.find(other => other.name === name);
  if (!host) {
    return;
  }
  Object.assign(host, change);
  const devices = new Set(devicesOfHost(host).map(({ device }) => device));
  draft.tasks = draft.tasks
    .filter(place => place.host !== name || devices.has(place.device))
    .map(place => (place.host === name ? { ...place, host: host.name } : place));
}

/** Replace all hosts. Tasks stay on the devices that still exist. */
export function setHosts(draft: ClusterDesign, hosts: readonly HostDesign[]): void {
  draft.hosts = hosts.map(host => ({ ...host, gpus: [...host.gpus] }));
  const there = new Set(devicesOf(draft).map(({ host, device }) => `${host}/${device}`));
  draft.tasks = draft.tasks.filter(place => there.has(`${place.host}/${place.device}`));
}

/** The hosts of a running cluster as hosts of a design. */
export function hostsFrom(hosts: readonly HostInfo[]): HostDesign[] {
  return hosts.map(host => ({
    name: host.drawn || host.name,
    cpus: host.threads,
    memory_bytes: host.memory_bytes,
    gpus: host.gpus.map(gpu => gpu.memory_bytes)
  }));
}

/** The hosts of a running cluster, keyed by the names of the corresponding hosts in the drawing. */
export function liveHosts(hosts: readonly HostInfo[]): Map<string, HostInfo> {
  return new Map(hosts.map(host => [host.drawn || host.name, host]));
}

/** Whether this is a valid name for a job. */
export function isJobName(name: string): boolean {
  return JOB_NAME.test(name);
}

/** Parse a typed number of tasks; null if it is invalid. */
export function readCount(typed: string): number | null {
  const count = Number(typed);
  return typed.trim() !== '' && Number.isInteger(count) && count >= 1 && count <= MAX_TASKS_PER_JOB ? count : null;
}

/** The request that starts the designed cluster, under its own name or the given one. */
export function requestOf(cluster: Readonly<ClusterDesign>, name: string): ClusterRequest {
  const { kind, jobs, options, hosts, tasks } = cluster;
  return { name: cluster.name || name, kind, jobs, options, hosts, tasks };
}

/** A design with this cluster and no model. */
export function designFrom(request: ClusterRequest): Design {
  const design = emptyDesign();
  const { name, kind, jobs, options, hosts, tasks } = request;
  design.cluster = { ...design.cluster, ...defined({ name, kind, jobs, options, hosts, tasks }) };
  return design;
}

/** A running cluster as a design, with its hosts and with its tasks on their current devices. */
export function designOf(cluster: ClusterInfo, request: ClusterRequest | undefined): Design {
  const named = (host: string) => cluster.hosts.find(({ name }) => name === host)?.drawn || host;
  return designFrom({
    name: cluster.name,
    kind: cluster.kind,
    jobs: cluster.jobs,
    options: request?.options ?? {},
    hosts: hostsFrom(cluster.hosts),
    tasks: cluster.tasks.map(({ task, host, gpus, memory_bytes }) => {
      const [job, index] = partsOf(task);
      const device = gpus.length === 0 ? 'CPU' : `GPU:${gpus[0]}`;
      return { job, index, host: named(host), device, memory_bytes };
    })
  });
}

function defined<T extends object>(values: T): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>;
}

/** A cluster name derived from a file name: `My Design.dtf` gives `my-design`. */
export function clusterName(path: string): string {
  const stem = path
    .split('/')
    .pop()!
    .replace(/\.dtf$/, '');
  return stem
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, '-')
    .slice(0, 64)
    .replace(/^[-_]+|[-_]+$/g, '');
}

function partsOf(task: string): [string, number] {
  const [job, index] = task.split(':') as [string, string];
  return [job, Number(index)];
}

/** Sort the placements by rank, so that the file does not depend on the order in which they were made. */
function sortPlaces(draft: ClusterDesign): void {
  const ranks = new Map(rankedJobs(draft.jobs).map((job, rank) => [job, rank]));
  const rank = (place: TaskPlace) => ranks.get(place.job) ?? ranks.size;
  draft.tasks.sort((a, b) => rank(a) - rank(b) || a.index - b.index);
}

function freeName(draft: ClusterDesign, wanted: string): string {
  const names = new Set(draft.hosts.map(host => host.name));
  const stem = wanted.replace(/-?\d+$/, '');
  let name = wanted;
  for (let number = 0; names.has(name); number++) {
    name = `${stem}-${number}`;
  }
  return name;
}
