/**
 * Formatting of numbers: this is the only place where units are added. Pure. `tests/readings.json` keeps it consistent
 * with Python's `schema/sizes.py`.
 */

import { TASK_LOAD } from '../api/schema';

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** `1.2 GiB`. */
export function formatBytes(bytes: number): string {
  if (!Number.isFinite(bytes)) {
    return '–';
  }
  const power = Math.min(BYTE_UNITS.length - 1, Math.max(0, Math.floor(Math.log2(Math.abs(bytes) || 1) / 10)));
  const value = bytes / 1024 ** power;
  return `${value.toFixed(power === 0 || Math.abs(value) >= 100 ? 0 : 1)} ${BYTE_UNITS[power]}`;
}

/** `1.2 / 4.0 GiB`: used and total, in the unit of the total. */
export function formatBytesOf(used: number, whole: number): string {
  const unit = formatBytes(whole).split(' ')[1] ?? 'B';
  const scale = 1024 ** Math.max(0, BYTE_UNITS.indexOf(unit));
  const digits = scale === 1 ? 0 : 1;
  return `${(used / scale).toFixed(digits)} / ${(whole / scale).toFixed(digits)} ${unit}`;
}

/** `41 s`, `1m 12s`, `2h 05m`, `3d 04h`. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) {
    return '–';
  }
  const whole = Math.max(0, Math.round(seconds));
  const two = (value: number) => String(value).padStart(2, '0');
  if (whole < 60) {
    return `${whole} s`;
  }
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) {
    return `${minutes}m ${two(whole % 60)}s`;
  }
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? `${hours}h ${two(minutes % 60)}m` : `${Math.floor(hours / 24)}d ${two(hours % 24)}h`;
}

/**
 * A number with four significant digits, short enough for an axis or a row: `0.0312`, `12.5k`, `3e-5`; also `NaN`, `∞`.
 */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) {
    return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '−∞';
  }
  const size = Math.abs(value);
  if (size === 0) {
    return '0';
  }
  if (size < 1e-3 || size >= 1e15) {
    return value.toExponential(2).replace(/\.?0*e\+?/, 'e');
  }
  for (const [limit, suffix] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e4, 'k']
  ] as const) {
    if (size >= limit) {
      const scale = suffix === 'k' ? 1e3 : limit;
      return `${trim((value / scale).toPrecision(3))}${suffix}`;
    }
  }
  return trim(value.toPrecision(4));
}

function trim(digits: string): string {
  return String(Number(digits));
}

/** A fraction as a percentage: `82%`. */
export function formatPercent(fraction: number): string {
  return `${Math.round(100 * fraction)}%`;
}

/** Units with a format of their own. */
type KnownUnit = 'number' | 'bytes' | 'bytes_per_second' | 'seconds' | 'cores' | 'fraction' | 'per_second';

/** The unit of a quantity. Any other unit, such as `W`, is appended to the number as it is. */
export type Unit = KnownUnit | (string & Record<never, never>);

/** Memory sizes, which scale by powers of 1024. */
export function isBinary(unit: Unit): boolean {
  return unit === 'bytes' || unit === 'bytes_per_second';
}

/** Quantities that are a share of a whole: their axes start at zero. */
export function isAmount(unit: Unit): boolean {
  return isBinary(unit) || unit === 'cores' || unit === 'fraction';
}

/**
 * The unit of a metric reported by a task: declared by the server for the metrics that it measures, otherwise taken
 * from the suffix of the name.
 */
export function unitOf(metric: string): Unit {
  const known = Object.hasOwn(TASK_LOAD, metric) ? TASK_LOAD[metric] : undefined;
  if (known !== undefined) {
    return known;
  }
  if (metric.endsWith('_bytes')) {
    return 'bytes';
  }
  if (metric.endsWith('_seconds')) {
    return 'seconds';
  }
  if (metric.endsWith('_per_second')) {
    return 'per_second';
  }
  return 'number';
}

/** A metric's value with its unit: `12.5k/s`, `3.2 ms`, `1.2 GiB`, `0.0312`. */
export function formatValue(value: number, unit: Unit): string {
  if (!Number.isFinite(value)) {
    return formatNumber(value);
  }
  switch (unit) {
    case 'bytes':
      return formatBytes(value);
    case 'seconds':
      return formatSeconds(value);
    case 'per_second':
      return `${formatNumber(value)}/s`;
    case 'cores':
      return formatNumber(Math.round(100 * value) / 100);
    case 'bytes_per_second':
      return `${formatBytes(value)}/s`;
    case 'fraction':
      return formatPercent(value);
    case 'number':
      return formatNumber(value);
    default:
      return `${formatNumber(value)} ${unit}`;
  }
}

function formatSeconds(seconds: number): string {
  const size = Math.abs(seconds);
  if (size >= 120) {
    return formatDuration(seconds);
  }
  if (size >= 1 || size === 0) {
    return `${trim(seconds.toPrecision(3))} s`;
  }
  return size >= 1e-3 ? `${trim((1e3 * seconds).toPrecision(3))} ms` : `${trim((1e6 * seconds).toPrecision(3))} µs`;
}

const BYTE_SCALES = BYTE_UNITS.map((unit, power) => [1024 ** power, ` ${unit}`] as const).reverse();

const SCALES: Readonly<Record<string, readonly (readonly [number, string])[]>> = {
  number: [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e4, 'k']
  ],
  bytes: BYTE_SCALES,
  bytes_per_second: BYTE_SCALES.map(([size, unit]) => [size, `${unit}/s`]),
  seconds: [
    [1, ' s'],
    [1e-3, ' ms'],
    [1e-6, ' µs']
  ],
  cores: [],
  per_second: [
    [1e9, 'G/s'],
    [1e6, 'M/s'],
    [1e4, 'k/s'],
    [0, '/s']
  ]
};

/** Scales of a unit without a format of its own: `1.2k W`, `82%`. */
function plainScales(unit: string): readonly (readonly [number, string])[] {
  const end = unit === '%' ? unit : ` ${unit}`;
  return [...SCALES.number!, [0, ''] as const].map(([limit, suffix]) => [limit, `${suffix}${end}`]);
}

/** The tick labels of an axis: all in one unit, with enough digits to tell them apart. */
export function formatTicks(ticks: readonly number[], unit: Unit): string[] {
  const largest = Math.max(...ticks.map(Math.abs), 0);
  if (unit === 'fraction') {
    return formatTicks(
      ticks.map(tick => 100 * tick),
      '%'
    );
  }
  if (largest > 0 && largest < 1e-4 && unit !== 'seconds') {
    return ticks.map(formatNumber);
  }
  const [limit, suffix] = (SCALES[unit] ?? plainScales(unit)).find(([least]) => largest >= least) ?? [0, ''];
  const scale = limit === 1e4 ? 1e3 : limit || 1;
  for (let digits = 0; ; digits++) {
    const labels = ticks.map(tick => (tick / scale).toFixed(digits));
    const exact = labels.every((label, i) => Math.abs(Number(label) * scale - ticks[i]!) <= 1e-6 * largest);
    if (exact || digits === 6) {
      return labels.map(label => `${label}${suffix}`);
    }
  }
}

/** The tick labels of an axis in seconds: `40 s`; `1:20` if it extends to minutes; `1h 20m` if it extends to hours. */
export function formatTimeTicks(ticks: readonly number[]): string[] {
  const last = Math.max(...ticks, 0);
  return ticks.map(tick => {
    const whole = Math.max(0, Math.round(tick));
    if (last < 60) {
      return `${whole} s`;
    }
    if (last < 3600) {
      return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
    }
    const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
    return [hours > 0 ? `${hours}h` : '', minutes > 0 || hours === 0 ? `${minutes}m` : ''].join(' ').trim();
  });
}

/**
 * The tick labels of an axis of times of day, in seconds since the epoch: with seconds if ticks are seconds apart, with
 * the day if they span several days.
 */
export function formatClockTicks(ticks: readonly number[]): string[] {
  const dates = ticks.map(tick => new Date(1000 * tick));
  const gap = ticks.length > 1 ? ticks[1]! - ticks[0]! : 60;
  const days = new Set(dates.map(date => date.toDateString())).size > 1;
  const time: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
  return dates.map(date => {
    const clock = date.toLocaleTimeString([], gap < 60 ? { ...time, second: '2-digit' } : time);
    return days ? `${date.toLocaleDateString([], { day: 'numeric', month: 'short' })} ${clock}` : clock;
  });
}

/** A metric's display name: `examples_per_second` is `examples/s`, `step_seconds` is `step time`. */
export function metricTitle(metric: string): string {
  return metric
    .replace(/_per_second$/, '/s')
    .replace(/_bytes$/, '')
    .replace(/_seconds$/, '_time')
    .replace(/^(cpu|gpu)(?=_|$)/, machine => machine.toUpperCase())
    .replace(/_/g, ' ');
}

/** The jobs of a cluster or run: `2 workers, 1 ps`. */
export function formatJobs(jobs: Record<string, number>): string {
  return Object.entries(jobs)
    .map(([job, count]) => `${count} ${count === 1 || job.endsWith('s') ? job : `${job}s`}`)
    .join(', ');
}

/** The time of day, to the second. */
export function formatClock(seconds: number): string {
  return new Date(1000 * seconds).toLocaleTimeString([], {
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23'
  });
}
