import { describe, expect, it } from 'vitest';

import type { DeviceLoad, Slot } from '../../../src/api/schema';
import { busyRows, foldedDevices } from '../../../src/model/devicegroups';
import type { DeviceChoice } from '../../../src/model/layerplacement';

function devices(jobs: Record<string, number>): DeviceChoice[] {
  return Object.entries(jobs).flatMap(([job, count]) =>
    Array.from({ length: count }, (_, index) => ({
      device: `/job:${job}/task:${index}/device:GPU:0`,
      task: `${job}:${index}`,
      name: `${job}:${index} GPU:0`
    }))
  );
}

function load(device: string, gibibytes: number, problem = ''): [string, DeviceLoad] {
  const bytes = gibibytes * 2 ** 30;
  const rest = { share: 0, busy_s: 0, sent_bytes: 0, received_bytes: 0, layers: 1, unused: '', filled_bytes: 0 };
  return [device, { device, memory_bytes: bytes, memory_limit_bytes: 8 * 2 ** 30, problem, ...rest }];
}

describe('foldedDevices', () => {
  it('does not group few devices', () => {
    const few = devices({ worker: 24 });
    expect(foldedDevices(few, new Map(), new Map())).toEqual({ single: few, ranges: [] });
  });

  it('groups many devices in ranges of one job', () => {
    const many = devices({ chief: 1, worker: 511 });
    const counts = new Map(many.map(({ device }) => [device, 2]));
    const loads = new Map(many.map(({ device }, index) => load(device, index < 100 ? 1.9 : 2.1)));
    const { single, ranges } = foldedDevices(many, loads, counts);
    expect(single).toEqual([]);
    expect(ranges.map(({ name }) => name)).toEqual([
      'chief:0',
      ...Array.from({ length: 15 }, (_, index) => `worker:${32 * index}–${32 * index + 31}`),
      'worker:480–510'
    ]);
    expect(ranges[1]).toMatchObject({ layers: 64, problems: 0 });
    expect(ranges[1]!.fraction).toBeCloseTo(1.9 / 8);
    expect(ranges[1]!.memory?.mean).toBeCloseTo(1.9 * 2 ** 30);
    expect(ranges.reduce((sum, { choices }) => sum + choices.length, 0)).toBe(512);
  });

  it('shows devices with a problem first, then outliers, and none of them twice', () => {
    const many = devices({ worker: 64 });
    const loads = new Map(
      many.map(({ device }, index) => load(device, index === 3 ? 7 : 2, index === 40 ? 'too large' : ''))
    );
    const { single, ranges } = foldedDevices(many, loads, new Map());
    expect(single.map(({ task }) => task)).toEqual(['worker:40', 'worker:3']);
    expect(ranges.map(({ name }) => name)).toEqual(['worker:0–2, 4–31', 'worker:32–39, 41–63']);
  });

  it('counts the problems in each range if very many devices have one', () => {
    const many = devices({ worker: 64 });
    const loads = new Map(many.map(({ device }) => load(device, 9, 'too large')));
    const { single, ranges } = foldedDevices(many, loads, new Map());
    expect(single.map(({ task }) => task)).toEqual(Array.from({ length: 8 }, (_, index) => `worker:${index}`));
    expect(ranges.map(({ problems }) => problems)).toEqual([24, 32]);
  });

  it('has no memory if none is predicted', () => {
    const { ranges } = foldedDevices(devices({ worker: 40 }), new Map(), new Map());
    expect(ranges[0]).toMatchObject({ memory: null, fraction: null, layers: 0 });
  });
});

describe('busyRows', () => {
  const slot = (task: number, start: number, duration: number): Slot => ({
    device: `/job:worker/task:${task}/device:CPU:0`,
    microbatch: 0,
    phase: 'forward',
    start_s: start,
    duration_s: duration
  });
  const named = (count: number) => Array.from({ length: count }, (_, task) => `/job:worker/task:${task}/device:CPU:0`);

  it('returns the fraction of busy devices in each row and part of a step', () => {
    const rows = busyRows([slot(0, 0, 2), slot(1, 1, 1), slot(3, 0.5, 1)], named(4), 4, { rows: 2, columns: 4 });
    expect(rows.map(({ name }) => name)).toEqual(['worker:0–1', 'worker:2–3']);
    expect([...rows[0]!.busy]).toEqual([0.5, 1, 0, 0]);
    expect([...rows[1]!.busy]).toEqual([0.25, 0.25, 0, 0]);
  });

  it('has at most the requested number of rows, with all devices', () => {
    const rows = busyRows([slot(511, 3, 1)], named(512), 4, { rows: 24, columns: 8 });
    expect(rows.length).toBeLessThanOrEqual(24);
    expect(rows.reduce((sum, { devices }) => sum + devices, 0)).toBe(512);
    const last = rows[rows.length - 1]!;
    expect(last.busy[7]).toBeCloseTo(1 / last.devices);
  });
});
