import { metricTitle, Unit, unitOf } from '../model/format';
import type { Line } from '../model/series';

/** A line of each task, or one line of their mean, which the server makes where several tasks report a metric. */
export type TaskMode = 'each' | 'mean';

/** One line of one plot. `task` is empty for a mean over tasks. */
export interface PlotLine {
  key: string;
  task: string;
  validation: boolean;
  x: Float64Array;
  y: Float64Array;
  version: number;
}

/** What one plot shows: a metric in training and in validation. */
export interface PlotGroup {
  metric: string;
  title: string;
  unit: Unit;
  lines: PlotLine[];
}

const VALIDATION = 'val_';

/** Metrics of the machine rather than of the model; they have a tab of their own. */
export const MACHINE_METRICS: ReadonlySet<string> = new Set(['cpu', 'memory_bytes']);

// The loss comes first and what says how fast it goes comes last; the rest keep the order in which they came.
const LAST = ['learning_rate', 'examples_per_second', 'step_seconds'];

function rank(metric: string): number {
  return metric === 'loss' ? 0 : 2 + LAST.indexOf(metric);
}

/** Plots in their order, each with its training lines before its validation lines. */
export function groupLines(lines: readonly Line[], mode: TaskMode): PlotGroup[] {
  const byMetric = new Map<string, Line[]>();
  for (const line of lines) {
    const metric = line.metric.startsWith(VALIDATION) ? line.metric.slice(VALIDATION.length) : line.metric;
    const group = byMetric.get(metric);
    if (group) {
      group.push(line);
    } else {
      byMetric.set(metric, [line]);
    }
  }
  return [...byMetric]
    .map(([metric, members]) => {
      const validation = members.filter(line => line.metric !== metric);
      const training = members.filter(line => line.metric === metric);
      return {
        metric,
        title: metricTitle(metric),
        unit: unitOf(metric),
        lines: [...plotLines(training, mode, false), ...plotLines(validation, mode, true)]
      };
    })
    .sort((a, b) => rank(a.metric) - rank(b.metric));
}

function plotLines(lines: Line[], mode: TaskMode, validation: boolean): PlotLine[] {
  const wanted = lines.filter(line => (line.task === '') === (mode === 'mean'));
  return (wanted.length > 0 ? wanted : lines).map(({ task, x, y, version }) => ({
    key: `${task}${validation ? '|val' : ''}`,
    task,
    validation,
    x,
    y,
    version
  }));
}

/** The order of tasks by name: `worker:2` before `worker:10`. */
export function compareTasks(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}

/** Whether a metric's name or title has the words of the filter. */
export function matches(metric: string, filter: string): boolean {
  const text = `${metric} ${metricTitle(metric)} ${VALIDATION}${metric}`.toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every(word => text.includes(word));
}
