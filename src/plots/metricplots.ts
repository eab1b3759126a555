import { SPEED_METRICS } from '../api/schema';
import { metricTitle, Unit, unitOf } from '../model/format';
import type { Line, ReplacedLine } from '../model/series';

/**
 * `each`: one line for each task. `mean`: their mean, which the server computes if several tasks report a metric, with
 * a band from the lowest to the highest. `split`: one plot for each task. `auto`: whichever is readable, lines for few
 * tasks and the mean for more.
 */
export type TaskMode = 'auto' | 'each' | 'mean' | 'split';

// With at least this many lines, those of single tasks become unreadable.
const MANY_TASKS = 4;

/** The contents of one plot: a metric in training and in validation. */
export interface Plot {
  /** Unique on a page. */
  id: string;
  metric: string;
  /** Its only task, if each task has a plot of its own. */
  task?: string;
  title: string;
  unit: Unit;
  /** The names under which the metric is reported: `loss`, `val_loss`. */
  names: string[];
  /** A shorter title for use below a group's heading, and the key of that group. */
  heading?: string;
  group?: string;
  /** Whether it is one of several plots of the same metric side by side. */
  small?: boolean;
}

/**
 * The data to which a line's values refer: single batches, if epochs are reported separately; whole epochs; the epoch
 * so far; the validation data; otherwise training in general.
 */
export type Phase = 'training' | 'batch' | 'running' | 'epoch' | 'validation';

/** One line of a plot. `task` is empty for a mean over tasks. */
export interface PlotLine {
  key: string;
  task: string;
  phase: Phase;
  validation: boolean;
  x: Float64Array;
  y: Float64Array;
  version: number;
  /** For a mean, the lines of its tasks. */
  parts?: readonly Line[];
}

// As in schema/metrics.py, in the order of a plot's lines.
const FORMS = [
  ['running', 'running_'],
  ['epoch', 'epoch_'],
  ['validation', 'val_']
] as const;

/**
 * The metric of which this is a variant: `loss` for `epoch_loss` and `val_loss`, if the prefix is not just part of a
 * name.
 */
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

/** The data to which the values of a plot's metric refer. */
export function phaseOf(name: string, { metric, names }: Pick<Plot, 'metric' | 'names'>): Phase {
  const form = FORMS.find(([, prefix]) => name === prefix + metric)?.[0];
  return form ?? (names.includes(`epoch_${metric}`) ? 'batch' : 'training');
}

const PHASES: readonly Phase[] = ['training', 'batch', 'running', 'epoch', 'validation'];

// The loss comes first and throughput last; the others keep the order in which they arrived.
function rank(metric: string): number {
  return metric === 'loss' ? 0 : 2 + SPEED_METRICS.indexOf(metric);
}

/** The plots of these metrics, in order. */
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

/** Whether the plot shows a run's progress, and should be easy to find among hundreds. */
export function isImportant(plot: Plot): boolean {
  return (
    plot.names.length > 1 ||
    SPEED_METRICS.includes(plot.metric) ||
    /^(lr|.*(loss|acc|accuracy))$/.test(plot.metric.toLowerCase())
  );
}

/** The lines of a plot, training before validation. `lines` returns those of one metric. */
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

/** Earlier values of repeated steps for the tasks that are drawn. A mean only has the highlighted intervals. */
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

/** Replace a plot of several tasks by one plot for each. */
export function splitPlot(plot: Plot, tasks: readonly string[]): Plot[] {
  return tasks.map(task => ({
    ...plot,
    id: `${plot.metric}\u0000${task}`,
    title: `${plot.title} · ${task}`,
    task,
    small: true
  }));
}

/** Compare task names in natural order: `worker:2` before `worker:10`. */
export function compareTasks(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}
