import { SPEED_METRICS } from '../api/schema';
import { metricTitle, Unit, unitOf } from '../model/format';
import type { Line, ReplacedLine } from '../model/series';

/**
 * A line of each task; their mean, which the server makes where several report a metric, with the band that they are in; a
 * plot of each task; or what stays readable, which is lines for few tasks and the mean for more.
 */
export type TaskMode = 'auto' | 'each' | 'mean' | 'split';

// From so many on, lines of tasks are a tangle.
const MANY_TASKS = 4;

/** What one plot shows: a metric in training and in validation. */
export interface Plot {
  /** Tells it from all others of a page. */
  id: string;
  metric: string;
  /** The only task in it, where each has a plot of its own. */
  task?: string;
  title: string;
  unit: Unit;
  /** The names under which it is reported: `loss`, `val_loss`. */
  names: string[];
  /** What it is called below its group's heading, which says the rest, and that group. */
  heading?: string;
  group?: string;
  /** One of many beside each other. */
  small?: boolean;
}

/**
 * What a line's values are of: batches where epochs have values of their own, epochs, the epoch so far, the validation data;
 * or just of the training.
 */
export type Phase = 'training' | 'batch' | 'running' | 'epoch' | 'validation';

/** One line of one plot. `task` is empty for a mean over tasks. */
export interface PlotLine {
  key: string;
  task: string;
  phase: Phase;
  validation: boolean;
  x: Float64Array;
  y: Float64Array;
  version: number;
  /** What a mean is of: the lines of its tasks. */
  parts?: readonly Line[];
}

// As in schema/metrics.py, in the order of a plot's lines.
const FORMS = [
  ['running', 'running_'],
  ['epoch', 'epoch_'],
  ['validation', 'val_']
] as const;

/** The metric of which this is a form: `loss` of `epoch_loss` and `val_loss`, where it is more than a name. */
export function familyOf(metric: string, names: ReadonlySet<string>): string {
  for (const [form, prefix] of FORMS) {
    const base = metric.slice(prefix.length);
    if (metric.startsWith(prefix) && base !== '') {
      const others = [base, ...FORMS.map(([, other]) => other + base)].filter(other => other !== metric);
      if (form === 'validation' || others.some(other => names.has(other))) {
        return base;
      }
    }
  }
  return metric;
}

/** What the values of a metric of a plot are of. */
export function phaseOf(name: string, { metric, names }: Pick<Plot, 'metric' | 'names'>): Phase {
  const form = FORMS.find(([, prefix]) => name === prefix + metric)?.[0];
  return form ?? (names.includes(`epoch_${metric}`) ? 'batch' : 'training');
}

const PHASES: readonly Phase[] = ['training', 'batch', 'running', 'epoch', 'validation'];

// The loss comes first and what says how fast it goes comes last; the rest keep the order in which they came.
function rank(metric: string): number {
  return metric === 'loss' ? 0 : 2 + SPEED_METRICS.indexOf(metric);
}

/** The plots of these metrics, in their order. */
export function plotsOf(metrics: readonly string[]): Plot[] {
  const names = new Map<string, string[]>();
  const all = new Set(metrics);
  for (const name of metrics) {
    const metric = familyOf(name, all);
    const members = names.get(metric);
    if (members) {
      members.push(name);
    } else {
      names.set(metric, [name]);
    }
  }
  return [...names]
    .map(([metric, members]) => ({
      id: metric,
      metric,
      title: metricTitle(metric),
      unit: unitOf(metric),
      names: inOrder(metric, members)
    }))
    .sort((a, b) => rank(a.metric) - rank(b.metric));
}

function inOrder(metric: string, names: readonly string[]): string[] {
  const place = (name: string) => PHASES.indexOf(phaseOf(name, { metric, names: [...names] }));
  return [...names].sort((a, b) => place(a) - place(b));
}

/** Whether a run's progress is read from this plot, so that it is at hand among hundreds. */
export function isImportant(plot: Plot): boolean {
  return (
    plot.names.length > 1 ||
    SPEED_METRICS.includes(plot.metric) ||
    /^(lr|.*(loss|acc|accuracy))$/.test(plot.metric.toLowerCase())
  );
}

/** The lines of a plot, those of training before those of validation. `lines` gives those of one metric. */
export function plotLines(plot: Plot, lines: (metric: string) => readonly Line[], mode: TaskMode): PlotLine[] {
  const known = plot.names.map(name => ({ name, all: lines(name) }));
  const most = Math.max(...known.map(({ all }) => tasksOf(all).length));
  const asMean = mode === 'mean' || (mode === 'auto' && most >= MANY_TASKS);
  return known.flatMap(({ name, all }) => {
    const phase = phaseOf(name, plot);
    const validation = phase === 'validation';
    const parts = tasksOf(all);
    return chosen(all, parts, plot.task, asMean).map(({ task, x, y, version }) => ({
      key: `${task}${{ validation: '|val', epoch: '|epoch', running: '|running' }[phase as string] ?? ''}`,
      task,
      phase,
      validation,
      x,
      y,
      // A band is as new as the newest of its lines.
      version: task === '' ? parts.reduce((newest, part) => Math.max(newest, part.version), version) : version,
      ...(task === '' && parts.length > 1 ? { parts } : {})
    }));
  });
}

/** What was done twice of the tasks that are drawn, as it was before. A mean of tasks has the ground alone. */
export function replacedLines(
  plot: Plot,
  drawn: readonly PlotLine[],
  replaced: (metric: string) => readonly ReplacedLine[]
): ReplacedLine[] {
  const tasks = new Set(drawn.map(line => line.task));
  return plot.names.flatMap(metric =>
    replaced(metric)
      .filter(line => tasks.has(line.task))
      .map(line => ({ ...line, name: `${metric} of ${line.name}` }))
  );
}

function chosen(all: readonly Line[], parts: readonly Line[], task: string | undefined, asMean: boolean) {
  if (task !== undefined) {
    return parts.filter(line => line.task === task);
  }
  const means = all.filter(line => line.task === '');
  return (asMean && means.length > 0) || parts.length === 0 ? means : parts;
}

function tasksOf(lines: readonly Line[]): Line[] {
  return lines.filter(line => line.task !== '');
}

/** A plot of each of these tasks in the place of one plot of them all. */
export function splitPlot(plot: Plot, tasks: readonly string[]): Plot[] {
  return tasks.map(task => ({
    ...plot,
    id: `${plot.metric}\u0000${task}`,
    title: `${plot.title} · ${task}`,
    task,
    small: true
  }));
}

/** The order of tasks by name: `worker:2` before `worker:10`. */
export function compareTasks(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}
