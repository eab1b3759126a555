/** Groups identical hosts of a drawing, so that a drawing can have many hosts and tasks. Pure. */

import type { ClusterDesign, HostDesign } from '../api/schema';
import { type DesignTask, devicesOfHost } from './clusterdesign';

/** Consecutive identical hosts; any other host is a group of its own. */
export interface HostGroup {
  /** The name of the group's first host, which identifies the group. */
  key: string;
  hosts: readonly HostDesign[];
}

// Up to this many hosts are drawn individually, as are sequences of fewer than `LEAST_ALIKE` identical hosts.
const MANY_HOSTS = 12;
const LEAST_ALIKE = 4;

/**
 * A cluster's hosts, grouped, in order. Hosts are identical if they have the same cores, memory and GPUs, and the same
 * number of tasks of each job on each device.
 */
export function hostGroups(
  cluster: Readonly<ClusterDesign>,
  byDevice: ReadonlyMap<string, readonly DesignTask[]>
): HostGroup[] {
  const alone = (host: HostDesign) => ({ key: host.name, hosts: [host] });
  if (cluster.hosts.length <= MANY_HOSTS) {
    return cluster.hosts.map(alone);
  }
  const groups: { key: string; look: string; hosts: HostDesign[] }[] = [];
  for (const host of cluster.hosts) {
    const look = lookOf(host, byDevice);
    const last = groups[groups.length - 1];
    if (last?.look === look) {
      last.hosts.push(host);
    } else {
      groups.push({ key: host.name, look, hosts: [host] });
    }
  }
  return groups.flatMap(group => (group.hosts.length < LEAST_ALIKE ? group.hosts.map(alone) : [group]));
}

/** The tasks on each device of all hosts of a group, by device name. */
export function tasksOfGroup(
  group: HostGroup,
  byDevice: ReadonlyMap<string, readonly DesignTask[]>
): { device: string; tasks: string[] }[] {
  return devicesOfHost(group.hosts[0]!).map(({ device }) => ({
    device,
    tasks: group.hosts.flatMap(host => (byDevice.get(`${host.name}/${device}`) ?? []).map(({ task }) => task))
  }));
}

function lookOf(host: HostDesign, byDevice: ReadonlyMap<string, readonly DesignTask[]>): string {
  const devices = devicesOfHost(host).map(({ device, memory_bytes }) => {
    const jobs = (byDevice.get(`${host.name}/${device}`) ?? []).map(({ job, place }) => [job, place?.memory_bytes]);
    return [device, memory_bytes, jobs];
  });
  return JSON.stringify([host.cpus, devices]);
}
