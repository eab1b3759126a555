import { describe, expect, it } from 'vitest';

import {
  formatBytes,
  formatBytesOf,
  formatDuration,
  formatJobs,
  formatNumber,
  formatPercent,
  formatTicks,
  formatValue,
  metricTitle,
  unitOf
} from '../../../src/model/format';

const GIB = 2 ** 30;

describe('format', () => {
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [1.25 * GIB, '1.3 GiB'],
    [200 * 2 ** 20, '200 MiB'],
    [NaN, '–']
  ])('%d bytes', (bytes, text) => expect(formatBytes(bytes)).toBe(text));

  it('gives used and whole in one unit', () => expect(formatBytesOf(0.5 * GIB, 4 * GIB)).toBe('0.5 / 4.0 GiB'));

  it.each([
    [0.4, '0 s'],
    [41, '41 s'],
    [72, '1m 12s'],
    [7500, '2h 05m'],
    [273_600, '3d 04h'],
    [Infinity, '–']
  ])('%d seconds', (seconds, text) => expect(formatDuration(seconds)).toBe(text));

  it.each([
    [0, '0'],
    [0.03125, '0.03125'],
    [0.000012345, '1.23e-5'],
    [0.00003, '3e-5'],
    [12, '12'],
    [100, '100'],
    [12_500, '12.5k'],
    [-2_000_000, '-2M'],
    [NaN, '–'],
    [Infinity, '∞']
  ])('the number %d', (value, text) => expect(formatNumber(value)).toBe(text));

  it.each([
    ['step_seconds', 0.0032, '3.2 ms'],
    ['examples_per_second', 12_500, '12.5k/s'],
    ['memory_bytes', GIB, '1.0 GiB'],
    ['cpu', 1.234, '1.23'],
    ['loss', 0.5, '0.5']
  ])('%s has its unit', (metric, value, text) => expect(formatValue(value, unitOf(metric))).toBe(text));

  it('labels an axis in one unit, with digits that tell the ticks apart', () => {
    expect(formatTicks([0, 0.5, 1, 1.5], 'number')).toEqual(['0.0', '0.5', '1.0', '1.5']);
    expect(formatTicks([0, 0.00025, 0.0005], 'number')).toEqual(['0.00000', '0.00025', '0.00050']);
    expect(formatTicks([0, 64 * 2 ** 20, 128 * 2 ** 20], 'bytes')).toEqual(['0 MiB', '64 MiB', '128 MiB']);
    expect(formatTicks([12_000, 12_500], 'per_second')).toEqual(['12.0k/s', '12.5k/s']);
    expect(formatTicks([0.005, 0.0055], 'seconds')).toEqual(['5.0 ms', '5.5 ms']);
  });

  it('names metrics and jobs for people', () => {
    expect(['loss', 'val_loss', 'examples_per_second', 'step_seconds', 'memory_bytes', 'cpu'].map(metricTitle)).toEqual(
      ['loss', 'val loss', 'examples/s', 'step time', 'memory', 'CPU']
    );
    expect(formatJobs({ worker: 2, ps: 1 })).toBe('2 worker, 1 ps');
    expect(formatPercent(0.823)).toBe('82 %');
  });
});
