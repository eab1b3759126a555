/** The cluster half of a design: hosts with devices, tasks put on them. Pure; the functions that change take a draft. */

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
  /** It has a place, on a device that is drawn. */
  isDrawn: boolean;
}

/** A device of a host that tasks can be put on. */
export interface HostDevice {
  host: string;
  /** `CPU` or `GPU:1`. */
  device: string;
  /** 0 where it is not known. */
  memory_bytes: number;
}

/** The jobs by rank: chief, worker, others by name, ps, evaluator. */
export function rankedJobs(jobs: Readonly<Record<string, number>>): string[] {
  const others = Object.keys(jobs)
    .filter(job => !FIRST_JOBS.includes(job) && !CPU_JOBS.includes(job))
    .sort();
  return [...FIRST_JOBS, ...others, ...CPU_JOBS].filter(job => Object.hasOwn(jobs, job));
}

/**
 * All tasks in order of rank, which is the order that gives them their colours. Of a job that is said to have more tasks
 * than one can have, as many as it can.
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

/** All devices, host by host. */
export function devicesOf(cluster: Readonly<ClusterDesign>): HostDevice[] {
  return cluster.hosts.flatMap(devicesOfHost);
}

/** Put a task on a device. Its cap goes with it as long as the device is the same. */
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

/** Take a task from its device: it goes where there is room. */
export function freeTask(draft: ClusterDesign, task: string): void {
  draft.tasks = draft.tasks.filter(place => `${place.job}:${place.index}` !== task);
}

/** The most memory that a placed task may take; 0: all. */
export function capTask(draft: ClusterDesign, task: string, memoryBytes: number): void {
  const place = draft.tasks.find(({ job, index }) => `${job}:${index}` === task);
  if (place) {
    place.memory_bytes = memoryBytes;
  }
}

/** Put all tasks of a job on devices in turn: `ps` and `evaluator` on CPUs, others on GPUs where there are any. */
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

/** Put all tasks of a job on one device. */
export function putJob(draft: ClusterDesign, job: string, host: string, device: string): void {
  for (let index = 0; index < (draft.jobs[job] ?? 0); index++) {
    putTask(draft, `${job}:${index}`, host, device);
  }
}

/** Have this many tasks of a job. Places of those that go are forgotten. */
export function setCount(draft: ClusterDesign, job: string, count: number): void {
  draft.jobs[job] = count;
  draft.tasks = draft.tasks.filter(place => place.job !== job || place.index < count);
}

/** Add a job that is usual and not there yet, with one task; returns its name. */
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

/** Add a host with a name that is free; returns the name. */
export function addHost(draft: ClusterDesign, host: Partial<HostDesign> = {}): string {
  const name = freeName(draft, host.name ?? 'host-0');
  draft.hosts.push({ cpus: 1, memory_bytes: 0, gpus: [], ...host, name });
  return name;
}

/** Remove a host. Its tasks go where there is room. */
export function removeHost(draft: ClusterDesign, name: string): void {
  draft.hosts = draft.hosts.filter(host => host.name !== name);
  draft.tasks = draft.tasks.filter(place => place.host !== name);
}

/** Change a host. Tasks stay on it under its new name; those on GPUs that go are placed where there is room. */
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

/** Have these hosts and no others. Tasks stay on devices that are still there. */
export function setHosts(draft: ClusterDesign, hosts: readonly HostDesign[]): void {
  draft.hosts = hosts.map(host => ({ ...host, gpus: [...host.gpus] }));
  const there = new Set(devicesOf(draft).map(({ host, device }) => `${host}/${device}`));
  draft.tasks = draft.tasks.filter(place => there.has(`${place.host}/${place.device}`));
}

/** The hosts of a running cluster, as they would be drawn. */
export function hostsFrom(hosts: readonly HostInfo[]): HostDesign[] {
  return hosts.map(host => ({
    name: host.drawn || host.name,
    cpus: host.threads,
    memory_bytes: host.memory_bytes,
    gpus: host.gpus.map(gpu => gpu.memory_bytes)
  }));
}

/** The hosts of a running cluster, each under the name of the drawn one that it is. */
export function liveHosts(hosts: readonly HostInfo[]): Map<string, HostInfo> {
  return new Map(hosts.map(host => [host.drawn || host.name, host]));
}

/** Whether a job may have this name. */
export function isJobName(name: string): boolean {
  return JOB_NAME.test(name);
}

/** The number of tasks that was typed; null while it is none that a job can have. */
export function readCount(typed: string): number | null {
  const count = Number(typed);
  return typed.trim() !== '' && Number.isInteger(count) && count >= 1 && count <= MAX_TASKS_PER_JOB ? count : null;
}

/** The request that starts the cluster as it is drawn, under its own name or the one given. */
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

/** A cluster that runs, as a design: its hosts, and its tasks where they are now. */
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

/** A name for a cluster, made of a file's: `My Design.dtf` is `my-design`. */
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

/** Places in order of rank, so that the file does not say in which order they were drawn. */
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
