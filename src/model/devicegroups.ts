/** Folds many devices into ranges, except for outliers, and computes when devices are busy. Pure. */

import type { DeviceLoad, Slot } from '../api/schema';
import type { DeviceChoice } from './layerplacement';
import { MANY, type Member, rangesOf, type Spread, spreadOf } from './spread';
import { taskOf } from './trace';

/** Consecutive devices of one job, without those that are shown individually. */
export interface DeviceRange {
  /** The full name of its first device, which identifies the range. */
  key: string;
  /** `worker:0–31`. */
  name: string;
  choices: readonly DeviceChoice[];
  /** The number of layers on its devices; a split layer counts for each of its devices. */
  layers: number;
  /** Predicted bytes per device; null without a prediction. */
  memory: Spread | null;
  /** The used fraction of their memory, 0 to 1, averaged over the devices; null if unknown. */
  fraction: number | null;
  /** The number of its devices that have a problem. */
  problems: number;
}

export interface FoldedDevices {
  /** The devices that are shown individually: the outliers, or all devices if there are few. */
  single: readonly DeviceChoice[];
  ranges: readonly DeviceRange[];
}

// Maximum number of devices in a range.
const RANGE = 32;
// Maximum number of devices that are shown individually as outliers.
const MOST_SINGLE = 8;

/**
 * Fold devices into ranges if there are many. Devices with a problem, and those that need far more or far less memory
 * than the others, stay individual.
 */
export function foldedDevices(
  devices: readonly DeviceChoice[],
  loads: ReadonlyMap<string, DeviceLoad>,
  counts: ReadonlyMap<string, number>
): FoldedDevices {
  if (devices.length <= MANY) {
    return { single: devices, ranges: [] };
  }
  const far = new Set(spreadOf(membersOf(devices, loads))?.outliers.map(({ name }) => name));
  const inTrouble = devices.filter(({ device }) => (loads.get(device)?.problem ?? '') !== '');
  const apart = devices.filter(choice => far.has(choice.name) && !inTrouble.includes(choice));
  const single = [...inTrouble, ...apart].slice(0, MOST_SINGLE);
  const shown = new Set(single);
  const ranges: DeviceRange[] = [];
  for (const part of parts(devices)) {
    const choices = part.filter(choice => !shown.has(choice));
    if (choices.length > 0) {
      const known = choices.flatMap(({ device }) => loads.get(device) ?? []);
      const limited = known.filter(load => load.memory_limit_bytes > 0);
      const full = limited.reduce((sum, load) => sum + load.memory_bytes / load.memory_limit_bytes, 0);
      ranges.push({
        key: choices[0]!.device,
        name: rangesOf(choices.map(({ task }) => task)),
        choices,
        layers: choices.reduce((sum, { device }) => sum + (counts.get(device) ?? 0), 0),
        memory: spreadOf(membersOf(choices, loads)),
        fraction: limited.length > 0 ? full / limited.length : null,
        problems: known.filter(({ problem }) => problem !== '').length
      });
    }
  }
  return { single, ranges };
}

function membersOf(devices: readonly DeviceChoice[], loads: ReadonlyMap<string, DeviceLoad>): Member[] {
  return devices.map(({ device, name }) => ({ name, value: loads.get(device)?.memory_bytes ?? NaN }));
}

/** Sequences of consecutive devices of one job, each of at most `RANGE` devices. */
function parts(devices: readonly DeviceChoice[]): DeviceChoice[][] {
  const found: DeviceChoice[][] = [];
  for (const choice of devices) {
    const last = found[found.length - 1];
    if (last && last.length < RANGE && jobOf(last[0]!.task) === jobOf(choice.task)) {
      last.push(choice);
    } else {
      found.push([choice]);
    }
  }
  return found;
}

function jobOf(task: string): string {
  return task.slice(0, task.lastIndexOf(':'));
}

/**
 * Devices that are drawn as one row. `busy`: for each of the equal parts of a step, the fraction in which a device is
 * busy, 0 to 1, averaged over the devices.
 */
export interface BusyRow {
  name: string;
  devices: number;
  busy: Float64Array;
}

/**
 * The times at which the devices are busy during a step, in at most `shape.rows` rows. `devices` are sorted; `end` is
 * the step's end, in seconds.
 */
export function busyRows(
  slots: readonly Slot[],
  devices: readonly string[],
  end: number,
  shape: { rows: number; columns: number }
): BusyRow[] {
  const each = Math.max(1, Math.ceil(devices.length / shape.rows));
  const rowOf = new Map(devices.map((device, index) => [device, Math.floor(index / each)]));
  const rows = Array.from({ length: Math.ceil(devices.length / each) }, (_, index): BusyRow => {
    const own = devices.slice(index * each, (index + 1) * each);
    return { name: rangesOf(own.map(taskOf)), devices: own.length, busy: new Float64Array(shape.columns) };
  });
  const width = end / shape.columns;
  for (const { device, start_s: start, duration_s: duration } of slots) {
    const row = rows[rowOf.get(device) ?? -1];
    const last = Math.min(shape.columns - 1, Math.floor((start + duration) / width));
    for (let column = Math.max(0, Math.floor(start / width)); row && column <= last; column++) {
      const within = Math.min(start + duration, (column + 1) * width) - Math.max(start, column * width);
      row.busy[column]! += Math.max(0, within) / width / row.devices;
    }
  }
  return rows;
}
