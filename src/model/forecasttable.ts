/** Forecasts in displayable form: curves, the parts of a step, a table. Pure. */

import type { Forecast, ForecastPoint, StepParts } from '../api/schema';

/** The parts of a step in drawing order. They add up to the step: the hidden exchange is not among them. */
export const PARTS = ['input_s', 'compute_s', 'exposed_s', 'update_s', 'idle_s'] as const;
export type Part = (typeof PARTS)[number] | 'hidden_s';

/** A run's measurements, to be overlaid on a forecast. */
export interface Measured {
  tasks: number;
  examplesPerSecond: number;
}

/** The feasible points of a forecast, as columns. */
export interface ForecastCurve {
  x: Float64Array;
  y: Float64Array;
  low: Float64Array;
  high: Float64Array;
  linear: Float64Array;
}

/** Points with a known speed: the feasible ones if `possible`, otherwise the infeasible ones. */
export function curveOf(forecast: Forecast, possible: boolean): ForecastCurve {
  const points = forecast.points.filter(point => isPossible(point) === possible && point.examples_per_second > 0);
  const column = (of: (point: ForecastPoint) => number) => Float64Array.from(points, of);
  return {
    x: column(({ tasks }) => tasks),
    y: column(({ examples_per_second: speed }) => speed),
    low: column(({ low }) => low),
    high: column(({ high }) => high),
    linear: column(({ linear }) => linear)
  };
}

export function isPossible(point: ForecastPoint): boolean {
  return point.problem === '';
}

/**
 * Start and end of each part of a step, as fractions of the longest step. The hidden exchange ends with the compute.
 */
export function barsOf(parts: StepParts, longest: number): { part: Part; start: number; end: number }[] {
  let at = 0;
  const bars: { part: Part; start: number; end: number }[] = [];
  for (const part of PARTS) {
    const end = at + parts[part] / longest;
    bars.push({ part, start: at, end });
    if (part === 'compute_s') {
      bars.push({ part: 'hidden_s', start: Math.max(at, end - parts.hidden_s / longest), end });
    }
    at = end;
  }
  return bars.filter(({ start, end }) => end > start);
}

/** The duration of the longest step of the feasible points. */
export function longestStep(points: readonly ForecastPoint[]): number {
  return points.reduce((most, point) => (isPossible(point) ? Math.max(most, point.step_seconds) : most), 0);
}

/** The numbers of tasks in all forecasts, ascending. */
export function countsOf(forecasts: readonly Forecast[]): number[] {
  return [...new Set(forecasts.flatMap(({ points }) => points.map(({ tasks }) => tasks)))].sort((a, b) => a - b);
}

/** The number of tasks closest to a given one, by ratio. */
export function nearestCount(counts: readonly number[], tasks: number): number {
  const away = (count: number) => Math.abs(Math.log(count) - Math.log(Math.min(tasks, Number.MAX_VALUE)));
  return counts.reduce((best, count) => (away(count) < away(best) ? count : best), counts[0] ?? 0);
}

/** All numbers of the forecasts in base units, as tab-separated columns. */
export function textOf(forecasts: readonly Forecast[]): string {
  const heads = [
    ...['strategy', 'tasks', 'examples_per_second', 'low', 'high', 'linear', 'efficiency', 'step_seconds'],
    ...['input_s', 'compute_s', 'hidden_s', 'exposed_s', 'update_s', 'idle_s', 'memory_bytes', 'problem']
  ];
  const rows = forecasts.flatMap(({ title, points }) =>
    points.map(({ parts, ...point }) => {
      const values: Record<string, string | number> = { ...point, ...parts, strategy: title };
      return heads.map(head => String(values[head] ?? '').replace(/\s+/g, ' ')).join('\t');
    })
  );
  return [heads.join('\t'), ...rows].join('\n') + '\n';
}
