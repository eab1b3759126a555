/** The layout of a trace in a timeline: rows, lanes, the visible range, round numbers for its axis. Pure. */

import type { TraceData, TracedOp, Transfer } from '../api/schema';

/** A device's row in the timeline. Overlapping operations are drawn in lanes below each other. */
export interface TimelineRow {
  device: string;
  task: string;
  /** `worker:1 CPU:0`. */
  name: string;
  ops: TracedOp[];
  lanes: number[];
  laneCount: number;
}

/** A time range, microseconds since the trace's origin. */
export interface Span {
  start: number;
  end: number;
}

/** A device's total time for one type of operation. */
export interface TypeTotal {
  device: string;
  name: string;
  task: string;
  type: string;
  count: number;
  duration_us: number;
}

const MOST_LANES = 8;
const LEAST_SPAN_US = 1;

/** `worker:1` of `/job:worker/task:1/device:CPU:0`. */
export function taskOf(device: string): string {
  const part = (name: string) => new RegExp(`/${name}:([^/]+)`).exec(device)?.[1];
  return `${part('job') ?? 'localhost'}:${part('task') ?? '0'}`;
}

function nameOf(device: string): string {
  const kind = /\/device:(.+)$/.exec(device)?.[1] ?? '';
  return `${taskOf(device)} ${kind}`.trim();
}

/** The steps that occur in a trace, ascending. */
export function stepsOf(trace: TraceData): number[] {
  return [...new Set(trace.ops.map(op => op.step))].sort((a, b) => a - b);
}

/** The part of a trace that belongs to one step; null: the whole trace. */
export function ofStep(trace: TraceData, step: number | null): TraceData {
  if (step === null) {
    return trace;
  }
  const mine = (item: TracedOp | Transfer) => item.step === step;
  return { ...trace, ops: trace.ops.filter(mine), transfers: trace.transfers.filter(mine) };
}

/** One row for each device, sorted by name. `trace.ops` are sorted by start time. */
export function rowsOf(trace: TraceData): TimelineRow[] {
  const byDevice = new Map<string, TracedOp[]>();
  const of = (device: string) => byDevice.get(device) ?? byDevice.set(device, []).get(device)!;
  trace.ops.forEach(op => of(op.device).push(op));
  trace.transfers.forEach(transfer => [transfer.source, transfer.target].forEach(of));
  return [...byDevice.keys()].sort().map(device => {
    const ops = byDevice.get(device)!;
    const lanes = lanesOf(ops).map(lane => Math.min(lane, MOST_LANES - 1));
    const laneCount = lanes.reduce((most, lane) => Math.max(most, lane + 1), 1);
    return { device, task: taskOf(device), name: nameOf(device), ops, lanes, laneCount };
  });
}

/** For each operation, the first lane that is free when it starts. */
export function lanesOf(ops: readonly { start_us: number; duration_us: number }[]): number[] {
  const freeAt: number[] = [];
  return ops.map(op => {
    const free = freeAt.findIndex(time => time <= op.start_us);
    const lane = free < 0 ? freeAt.length : free;
    freeAt[lane] = op.start_us + op.duration_us;
    return lane;
  });
}

/** From the first start to the last end. */
export function extentOf(trace: TraceData): Span {
  const items = [...trace.ops, ...trace.transfers];
  const start = items.reduce((least, item) => Math.min(least, item.start_us), Infinity);
  const end = items.reduce((most, item) => Math.max(most, item.start_us + item.duration_us), -Infinity);
  return items.length === 0 ? { start: 0, end: 1 } : { start, end: Math.max(end, start + LEAST_SPAN_US) };
}

/** Zoom in (`factor` above 1) or out, keeping the time `at` fixed and without exceeding `whole`. */
export function zoomed(span: Span, factor: number, at: number, whole: Span): Span {
  const width = Math.min(Math.max((span.end - span.start) / factor, LEAST_SPAN_US), whole.end - whole.start);
  const part = (at - span.start) / (span.end - span.start);
  return within({ start: at - part * width, end: at + (1 - part) * width }, whole);
}

/** The span shifted by `by` microseconds, within `whole`. */
export function moved(span: Span, by: number, whole: Span): Span {
  return within({ start: span.start + by, end: span.end + by }, whole);
}

function within(span: Span, whole: Span): Span {
  const width = span.end - span.start;
  const start = Math.min(Math.max(span.start, whole.start), whole.end - width);
  return { start, end: start + width };
}

/** About `about` round times (1, 2 or 5 times a power of ten apart) in a span. */
export function ticksOf(span: Span, about: number): number[] {
  const rough = Math.log10((span.end - span.start) / about);
  const power = 10 ** Math.floor(rough);
  const steps = [1, 2, 5, 10].map(factor => factor * power);
  const step = steps.reduce((best, other) =>
    Math.abs(Math.log10(other) - rough) < Math.abs(Math.log10(best) - rough) ? other : best
  );
  const first = Math.ceil(span.start / step);
  const count = Math.floor(span.end / step) - first + 1;
  return Array.from({ length: Math.max(0, count) }, (_, index) => (first + index) * step);
}

/** Each device's total for each type of operation, the largest first. */
export function totalsOf(trace: TraceData): TypeTotal[] {
  const totals = new Map<string, TypeTotal>();
  for (const op of trace.ops) {
    const type = op.op_type || op.op;
    const key = `${op.device} ${type}`;
    const total = totals.get(key) ?? {
      device: op.device,
      name: nameOf(op.device),
      task: taskOf(op.device),
      type,
      count: 0,
      duration_us: 0
    };
    total.count += 1;
    total.duration_us += op.duration_us;
    totals.set(key, total);
  }
  return [...totals.values()].sort((a, b) => b.duration_us - a.duration_us);
}
