/** Reads and writes the text of a `.dtfplots` file: selected plots of several runs. Pure. */

import { type DashboardPlot, type DashboardRun, DEFAULTS, type RunsDashboard } from '../api/schema';
import { DesignError, offsetOf, placeOf, syntaxError } from './designtext';
import { writeJson } from './jsontext';
import { array, flag, number, ReadError, type Reader, struct, text, whole } from './jsonreaders';

/** The version of the format that is read and written here. */
const VERSION = DEFAULTS.RunsDashboard.version;
/** Largest weight of past values in smoothing. */
export const MOST_SMOOTHING = 0.98;

/** Why a string is not a valid dashboard. Line and column count from 1. */
export class DashboardError extends Error {
  constructor(
    message: string,
    readonly line: number,
    readonly column: number
  ) {
    super(message);
    this.name = 'DashboardError';
  }
}

const smoothing: Reader<number> = (value, path) => {
  const given = number(value, path);
  if (given < 0 || given > MOST_SMOOTHING) {
    throw new ReadError(`${path.join('.')} must be from 0 to ${MOST_SMOOTHING}, got ${given}`, path);
  }
  return given;
};

const axis: Reader<string> = (value, path) => {
  if (value !== 'step' && value !== 'time') {
    throw new ReadError(`x must be "step" or "time", got ${(JSON.stringify(value) ?? '').slice(0, 200)}`, path);
  }
  return value;
};

const dashboard = struct<RunsDashboard>(
  {
    version: whole,
    title: text,
    x: axis,
    runs: array(struct<DashboardRun>({ id: text, name: text }, DEFAULTS.DashboardRun)),
    plots: array(struct<DashboardPlot>({ metric: text, smoothing, log: flag }, DEFAULTS.DashboardPlot))
  },
  DEFAULTS.RunsDashboard
);

/** An empty dashboard. */
export function emptyDashboard(): RunsDashboard {
  return structuredClone<RunsDashboard>(DEFAULTS.RunsDashboard);
}

/** Parse a dashboard, with defaults for everything that the text omits; duplicate runs and plots are removed. */
export function readDashboard(source: string): RunsDashboard {
  if (source.trim() === '') {
    return emptyDashboard(); // a document that is being loaded, or a file created by "New File"
  }
  let plain: unknown;
  try {
    plain = JSON.parse(source);
  } catch {
    const { message, line, column }: DesignError = syntaxError(source);
    throw new DashboardError(message, line, column);
  }
  if (plain === null || typeof plain !== 'object' || Array.isArray(plain)) {
    throw new DashboardError('A dashboard must be a JSON object', 1, 1);
  }
  const { version } = plain as Record<string, unknown>;
  if (Number.isInteger(version) && version !== VERSION) {
    const message = `This dashboard has version ${version as number}. This version of jupyter_dtf reads ${VERSION}`;
    throw new DashboardError(message, ...placeOf(source, offsetOf(source, ['version'])));
  }
  try {
    const found = dashboard(plain, []);
    return { ...found, runs: once(found.runs, ({ id }) => id), plots: once(found.plots, ({ metric }) => metric) };
  } catch (error) {
    if (error instanceof ReadError) {
      throw new DashboardError(error.message, ...placeOf(source, offsetOf(source, error.path)));
    }
    throw error;
  }
}

/** A dashboard as text, with one line for each run and plot, so that diffs are readable. */
export function writeDashboard(value: Readonly<RunsDashboard>): string {
  return writeJson(value);
}

function once<T>(items: readonly T[], key: (item: T) => string): T[] {
  return [...new Map(items.map(item => [key(item), item])).values()];
}
