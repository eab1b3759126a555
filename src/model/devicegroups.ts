/** Very many devices in few places: those that stand out, the others in ranges, and when ranges are busy. Pure. */

import type { DeviceLoad, Slot } from '../api/schema';
import type { DeviceChoice } from './layerplacement';
import { MANY, type Member, rangesOf, type Spread, spreadOf } from './spread';
import { taskOf } from './trace';

/** Devices of one job that follow each other. */
export interface DeviceRange {
  /** The name of its first device, which tells it from others. */
  key: string;
  /** `worker:0–31`. */
  name: string;
  choices: readonly DeviceChoice[];
  /** Layers on them, each counted on every device it is on. */
  layers: number;
  /** Bytes; null where nothing is predicted. */
  memory: Spread | null;
  /** How full their memory is on average, 0 to 1; null where that is not known. */
  fraction: number | null;
  /** How many of them are in trouble beside those that are shown by themselves. */
  problems: number;
}

export interface FoldedDevices {
  /** Those to look at first; of few devices, all. */
  single: readonly DeviceChoice[];
  ranges: readonly DeviceRange[];
}

// So many devices are in one range.
const RANGE = 32;
// Of those that stand out, so many are shown by themselves.
const MOST_SINGLE = 8;

/** Devices as they are where they are few; of many, those with a problem and those that need far more or less memory come first. */
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

/** So many at most that follow each other and are of one job. */
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

/** Devices that are drawn as one row: how much of each of the equal parts of a step they are busy, 0 to 1, on average. */
export interface BusyRow {
  name: string;
  devices: number;
  busy: Float64Array;
}

/** When the devices of a step are busy, in at most so many rows. `devices` are sorted; `end` is the step's, in seconds. */
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
