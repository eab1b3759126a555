import { beforeEach, describe, expect, it } from 'vitest';

import type { ClusterDesign } from '../../../src/api/schema';
import * as cluster from '../../../src/model/clusterdesign';
import { emptyDesign } from '../../../src/model/designtext';
import { clusterInfo, gpuInfo } from '../fixtures';

const GIB = 2 ** 30;

let draft: ClusterDesign;
const places = () => draft.tasks.map(({ job, index, host, device }) => `${job}:${index} ${host} ${device}`);

beforeEach(() => {
  draft = emptyDesign().cluster;
  draft.jobs = { worker: 3, ps: 1 };
  cluster.addHost(draft, { name: 'a', cpus: 4, gpus: [GIB, GIB] });
  cluster.addHost(draft, { name: 'b', cpus: 4 });
});

describe('tasks', () => {
  it('are ranked as in runs, with the chief first and ps last', () => {
    draft.jobs = { ps: 1, zoo: 1, evaluator: 1, worker: 2, chief: 1 };
    expect(cluster.tasksOf(draft).map(({ task }) => task)).toEqual([
      'chief:0',
      'worker:0',
      'worker:1',
      'zoo:0',
      'ps:0',
      'evaluator:0'
    ]);
  });

  it('are written to the file in order of rank, in whatever order they were placed', () => {
    cluster.putTask(draft, 'ps:0', 'b', 'CPU');
    cluster.putTask(draft, 'worker:2', 'a', 'GPU:1');
    cluster.putTask(draft, 'worker:0', 'a', 'GPU:0');
    expect(places()).toEqual(['worker:0 a GPU:0', 'worker:2 a GPU:1', 'ps:0 b CPU']);
    expect(cluster.tasksOf(draft)[0]!.place).toBe(draft.tasks[0]);
  });

  it('are drawn only on devices that exist', () => {
    cluster.putTask(draft, 'worker:0', 'a', 'GPU:7');
    cluster.putTask(draft, 'worker:1', 'c', 'CPU');
    cluster.putTask(draft, 'worker:2', 'b', 'CPU');
    expect(cluster.tasksOf(draft).map(({ isDrawn }) => isDrawn)).toEqual([false, false, true, false]);
  });

  it('are limited to the maximum number per job, and are none for a negative count', () => {
    draft.jobs = { worker: 1e12, ps: -3 };
    expect(cluster.tasksOf(draft)).toHaveLength(10_000);
  });

  it('keep their memory cap on the same device and lose it on another', () => {
    cluster.putTask(draft, 'worker:0', 'a', 'GPU:0');
    cluster.capTask(draft, 'worker:0', GIB);
    cluster.putTask(draft, 'worker:0', 'a', 'GPU:0');
    expect(draft.tasks[0]!.memory_bytes).toBe(GIB);
    cluster.putTask(draft, 'worker:0', 'a', 'GPU:1');
    expect(draft.tasks[0]!.memory_bytes).toBe(0);
    cluster.freeTask(draft, 'worker:0');
    expect(draft.tasks).toEqual([]);
  });
});

describe('a job', () => {
  it('is distributed: workers over the GPUs in turn, ps over CPUs', () => {
    cluster.layOut(draft, 'worker');
    cluster.layOut(draft, 'ps');
    expect(places()).toEqual(['worker:0 a GPU:0', 'worker:1 a GPU:1', 'worker:2 a GPU:0', 'ps:0 a CPU']);
  });

  it('is distributed over CPUs if there is no GPU, and not at all without hosts', () => {
    cluster.changeHost(draft, 'a', { gpus: [] });
    cluster.layOut(draft, 'worker');
    expect(places()).toEqual(['worker:0 a CPU', 'worker:1 b CPU', 'worker:2 a CPU']);
    draft.hosts = [];
    draft.tasks = [];
    cluster.layOut(draft, 'worker');
    expect(draft.tasks).toEqual([]);
  });

  it('is put on one device', () => {
    cluster.putJob(draft, 'worker', 'b', 'CPU');
    expect(places()).toEqual(['worker:0 b CPU', 'worker:1 b CPU', 'worker:2 b CPU']);
  });

  it('loses the placements of removed tasks and keeps those of the others', () => {
    cluster.layOut(draft, 'worker');
    cluster.layOut(draft, 'ps');
    cluster.setCount(draft, 'worker', 1);
    expect(places()).toEqual(['worker:0 a GPU:0', 'ps:0 a CPU']);
    cluster.removeJob(draft, 'ps');
    expect(places()).toEqual(['worker:0 a GPU:0']);
    expect(draft.jobs).toEqual({ worker: 1 });
  });

  it('is renamed together with the placements of its tasks', () => {
    cluster.layOut(draft, 'worker');
    cluster.renameJob(draft, 'worker', 'chief');
    expect(Object.keys(draft.jobs)).toEqual(['chief', 'ps']);
    expect(places()[0]).toBe('chief:0 a GPU:0');
  });

  it('is added under a name that is free', () => {
    expect([1, 2, 3, 4].map(() => cluster.addJob(draft))).toEqual(['chief', 'evaluator', 'job0', 'job1']);
  });
});

describe('a host', () => {
  it('is added under a name that is free', () => {
    expect(cluster.addHost(draft)).toBe('host-0');
    expect(cluster.addHost(draft)).toBe('host-1');
  });

  it('keeps its tasks when it is renamed, and loses those of removed GPUs', () => {
    cluster.putTask(draft, 'worker:0', 'a', 'GPU:0');
    cluster.putTask(draft, 'worker:1', 'a', 'GPU:1');
    cluster.changeHost(draft, 'a', { name: 'c', gpus: [GIB] });
    expect(places()).toEqual(['worker:0 c GPU:0']);
    cluster.removeHost(draft, 'c');
    expect(places()).toEqual([]);
  });

  it('is replaced by the hosts of a running cluster', () => {
    const [live] = clusterInfo('digits').hosts;
    cluster.putTask(draft, 'worker:0', 'a', 'CPU');
    cluster.putTask(draft, 'worker:1', 'b', 'CPU');
    cluster.setHosts(draft, cluster.hostsFrom([{ ...live!, name: '7', drawn: 'a' }]));
    expect(draft.hosts).toEqual([{ name: 'a', cpus: 4, memory_bytes: 4 * GIB, gpus: [] }]);
    expect(places()).toEqual(['worker:0 a CPU']);
    expect(cluster.liveHosts([{ ...live!, name: '7', drawn: 'a' }]).get('a')?.name).toBe('7');
    expect(cluster.liveHosts([{ ...live!, name: 'a', drawn: 'b' }]).get('a')).toBeUndefined();
  });
});

it('a running cluster is converted to a design with the placements of its tasks', () => {
  const [live] = clusterInfo('digits').hosts;
  const info = clusterInfo('digits', {
    hosts: [{ ...live!, gpus: [gpuInfo({ memory_bytes: GIB })] }],
    tasks: [
      { task: 'worker:0', host: '0', gpus: [0], memory_bytes: 5 },
      { task: 'worker:1', host: '0', gpus: [], memory_bytes: 0 }
    ]
  });
  const { cluster: made } = cluster.designOf(info, { options: { threads_per_host: 2 } });
  expect(made).toEqual({
    name: 'digits',
    kind: 'local',
    jobs: { worker: 2 },
    options: { threads_per_host: 2 },
    hosts: [{ name: '0', cpus: 4, memory_bytes: 4 * GIB, gpus: [GIB] }],
    tasks: [
      { job: 'worker', index: 0, host: '0', device: 'GPU:0', memory_bytes: 5 },
      { job: 'worker', index: 1, host: '0', device: 'CPU', memory_bytes: 0 }
    ]
  });
  expect(cluster.requestOf(made, 'other').name).toBe('digits');
  expect(cluster.requestOf({ ...made, name: '' }, 'other').name).toBe('other');
});

it.each([
  ['dir/My Design (2).dtf', 'my-design-2'],
  ['résnet.dtf', 'r-snet'],
  ['---.dtf', ''],
  [`${'x'.repeat(70)}.dtf`, 'x'.repeat(64)]
])('the cluster of the file %s is named %s', (path, name) => {
  expect(cluster.clusterName(path)).toBe(name);
});

it.each([
  ['3', 3],
  ['10000', 10_000],
  ['0', null],
  ['', null],
  ['2.5', null],
  ['10001', null],
  ['two', null]
])('%j is read as %j tasks', (typed, count) => {
  expect(cluster.readCount(typed)).toBe(count);
});

it.each([
  ['worker_2', true],
  ['2nd', false],
  ['', false],
  ['a b', false]
])('a job may be named %j: %s', (name, allowed) => {
  expect(cluster.isJobName(name)).toBe(allowed);
});
