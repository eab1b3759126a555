import { describe, expect, it } from 'vitest';

import type { ClusterDesign } from '../../../src/api/schema';
import { tasksOf } from '../../../src/model/clusterdesign';
import { hostGroups, tasksOfGroup } from '../../../src/model/clustergroups';
import { emptyDesign } from '../../../src/model/designtext';

/** Returns hosts with two GPUs and a worker on each. The host with the index `odd` has more cores. */
function drawn(hosts: number, odd = -1): ClusterDesign {
  return {
    ...emptyDesign().cluster,
    jobs: { worker: 2 * hosts },
    hosts: Array.from({ length: hosts }, (_, index) => ({
      name: `node-${index}`,
      cpus: index === odd ? 64 : 16,
      memory_bytes: 0,
      gpus: [1, 1]
    })),
    tasks: Array.from({ length: 2 * hosts }, (_, index) => ({
      job: 'worker',
      index,
      host: `node-${index >> 1}`,
      device: `GPU:${index % 2}`,
      memory_bytes: 0
    }))
  };
}

function byDevice(cluster: ClusterDesign) {
  const places = tasksOf(cluster).map(task => [`${task.place!.host}/${task.place!.device}`, [task]] as const);
  return new Map(places);
}

describe('equal hosts', () => {
  it('are one group, which ends at a different host', () => {
    const cluster = drawn(64, 40);
    const groups = hostGroups(cluster, byDevice(cluster));
    expect(groups.map(({ key, hosts }) => [key, hosts.length])).toEqual([
      ['node-0', 40],
      ['node-40', 1],
      ['node-41', 23]
    ]);
    const [, first, second] = tasksOfGroup(groups[0]!, byDevice(cluster));
    expect(first).toMatchObject({ device: 'GPU:0' });
    expect(first!.tasks.slice(0, 3)).toEqual(['worker:0', 'worker:2', 'worker:4']);
    expect(second!.tasks).toHaveLength(40);
  });

  it('are drawn one by one if there are few hosts, or few equal ones in a row', () => {
    expect(hostGroups(drawn(12), new Map())).toHaveLength(12);
    const cluster = drawn(13, 3);
    expect(hostGroups(cluster, byDevice(cluster)).map(({ hosts }) => hosts.length)).toEqual([1, 1, 1, 1, 9]);
  });

  it('are not equal if the numbers of their tasks differ', () => {
    const cluster = drawn(20);
    cluster.tasks.pop();
    cluster.jobs = { worker: 39 };
    expect(hostGroups(cluster, byDevice(cluster)).map(({ hosts }) => hosts.length)).toEqual([19, 1]);
  });
});
