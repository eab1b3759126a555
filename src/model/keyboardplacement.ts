/** Places tasks with the keyboard: the task or job that has been picked up, and its current target device. Pure. */

import type { HostDevice } from './clusterdesign';

/**
 * A task (`worker:1`) or a whole job (`worker`) that was picked up. `at` is the target device's index; -1 for no
 * device.
 */
export interface Carried {
  readonly what: string;
  readonly at: number;
}

/** The target device after a key press; undefined for keys that do not move it. */
export function moved(devices: readonly HostDevice[], at: number, key: string): number | undefined {
  switch (key) {
    case 'ArrowDown':
      return Math.min(devices.length - 1, at + 1);
    case 'ArrowUp':
      return Math.max(-1, at - 1);
    case 'ArrowRight':
      return onOtherHost(devices, at, 1);
    case 'ArrowLeft':
      return onOtherHost(devices, at, -1);
    case 'Home':
      return Math.min(0, devices.length - 1);
    case 'End':
      return devices.length - 1;
    default:
      return undefined;
  }
}

/**
 * The device in the same row of the next or previous host, or that host's last device if it has fewer rows. If there is
 * no such host, the same device.
 */
function onOtherHost(devices: readonly HostDevice[], at: number, step: 1 | -1): number {
  const here = devices[at];
  if (!here) {
    return step === 1 ? Math.min(0, devices.length - 1) : at;
  }
  const hosts = [...new Set(devices.map(({ host }) => host))];
  const host = hosts[hosts.indexOf(here.host) + step];
  if (host === undefined) {
    return at;
  }
  const first = devices.findIndex(device => device.host === host);
  const count = devices.filter(device => device.host === host).length;
  const row = at - devices.findIndex(device => device.host === here.host);
  return first + Math.min(row, count - 1);
}

/** The index of a device in the list; -1 if it is not there. */
export function deviceNumber(devices: readonly HostDevice[], host: string, device: string): number {
  return devices.findIndex(other => other.host === host && other.device === device);
}
