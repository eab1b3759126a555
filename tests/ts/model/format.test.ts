import { readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import {
  formatBytes,
  formatBytesOf,
  formatDuration,
  formatJobs,
  formatNumber,
  formatPercent,
  formatTicks,
  formatTimeTicks,
  formatValue,
  metricTitle,
  unitOf
} from '../../../src/model/format';

const GIB = 2 ** 30;

type Case = [number | string, string];
const readings = JSON.parse(readFileSync('tests/readings.json', 'utf-8')) as {
  number: Case[];
  duration: Case[];
  bytes: Case[];
  metric: [string, number | string, string][];
  title: [string, string][];
  jobs: [Record<string, number>, string][];
};

describe('format', () => {
  it('writes used and total bytes in one unit', () => expect(formatBytesOf(0.5 * GIB, 4 * GIB)).toBe('0.5 / 4.0 GiB'));

  // The tests in Python read the same file, because both sides must format values equally.
  const number = (value: number | string) => Number(value);
  it.each(readings.number)('the number %s is %s', (value, text) => expect(formatNumber(number(value))).toBe(text));
  it.each(readings.duration)('%s seconds are %s', (value, text) => expect(formatDuration(number(value))).toBe(text));
  it.each(readings.bytes)('%s bytes are %s', (value, text) => expect(formatBytes(number(value))).toBe(text));
  it.each(readings.metric)('%s of %s is %s', (metric, value, text) =>
    expect(formatValue(number(value), unitOf(metric))).toBe(text)
  );
  it.each(readings.title)('%s has the title %s', (metric, text) => expect(metricTitle(metric)).toBe(text));
  it.each(readings.jobs)('%o are %s', (jobs, text) => expect(formatJobs(jobs)).toBe(text));

  it('labels an axis in one unit, with enough digits to distinguish the ticks', () => {
    expect(formatTicks([0, 0.5, 1, 1.5], 'number')).toEqual(['0.0', '0.5', '1.0', '1.5']);
    expect(formatTicks([0, 0.00025, 0.0005], 'number')).toEqual(['0.00000', '0.00025', '0.00050']);
    expect(formatTicks([0, 64 * 2 ** 20, 128 * 2 ** 20], 'bytes')).toEqual(['0 MiB', '64 MiB', '128 MiB']);
    expect(formatTicks([12_000, 12_500], 'per_second')).toEqual(['12.0k/s', '12.5k/s']);
    expect(formatTicks([0.005, 0.0055], 'seconds')).toEqual(['5.0 ms', '5.5 ms']);
  });

  it('chooses the format of a time axis by its last tick', () => {
    expect(formatTimeTicks([0, 20, 40])).toEqual(['0 s', '20 s', '40 s']);
    expect(formatTimeTicks([0, 40, 80])).toEqual(['0:00', '0:40', '1:20']);
    expect(formatTimeTicks([0, 1800, 3600, 5400])).toEqual(['0m', '30m', '1h', '1h 30m']);
  });

  it('uses the units from the server, including unknown ones', () => {
    const read = (value: number, unit: string) => [formatValue(value, unit), ...formatTicks([0, value], unit)];
    expect(read(0.5, 'fraction')).toEqual(['50%', '0%', '50%']);
    expect(read(1.5 * 2 ** 20, 'bytes_per_second')).toEqual(['1.5 MiB/s', '0.0 MiB/s', '1.5 MiB/s']);
    expect(read(250, 'W')).toEqual(['250 W', '0 W', '250 W']);
    expect(read(25_000, 'W')).toEqual(['25k W', '0k W', '25k W']);
    expect([unitOf('cpu'), unitOf('memory_bytes'), unitOf('constructor')]).toEqual(['cores', 'bytes', 'number']);
  });

  it('writes a fraction as percent', () => expect(formatPercent(0.823)).toBe('82%'));
});
