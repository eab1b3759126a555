import { describe, expect, it } from 'vitest';

import type { Line } from '../../../src/model/series';
import {
  compareTasks,
  isImportant,
  phaseOf,
  plotLines,
  plotsOf,
  replacedLines,
  splitPlot
} from '../../../src/plots/metricplots';

const line = (metric: string, task = 'worker:0'): Line => ({
  metric,
  task,
  x: new Float64Array([1]),
  y: new Float64Array([1]),
  version: 1
});

describe('plotsOf', () => {
  it('puts training and validation into one plot, with the loss first and the speed last', () => {
    const plots = plotsOf(['examples_per_second', 'val_accuracy', 'accuracy', 'step_seconds', 'val_loss', 'loss']);
    expect(plots.map(plot => plot.metric)).toEqual(['loss', 'accuracy', 'examples_per_second', 'step_seconds']);
    expect(plots[1]!.names).toEqual(['accuracy', 'val_accuracy']);
    expect(plots[2]!.title).toBe('examples/s');
  });

  it('puts batches, epochs and validation of a metric into one plot, but not names that only look similar', () => {
    const plots = plotsOf(['val_loss', 'epoch_loss', 'loss', 'epoch_time', 'running_auc', 'epoch_auc', 'val_f1']);
    expect(plots.map(({ names }) => names)).toEqual([
      ['loss', 'epoch_loss', 'val_loss'],
      ['epoch_time'],
      ['running_auc', 'epoch_auc'],
      ['val_f1']
    ]);
    expect(plots[0]!.names.map(name => phaseOf(name, plots[0]!))).toEqual(['batch', 'epoch', 'validation']);
    expect(plots[2]!.names.map(name => phaseOf(name, plots[2]!))).toEqual(['running', 'epoch']);
    expect(phaseOf('loss', plotsOf(['loss', 'val_loss'])[0]!)).toBe('training');
  });

  it('detects the important metrics of a run', () => {
    const names = ['loss', 'head_loss', 'top_5_accuracy', 'learning_rate', 'f1', 'val_f1', 'norm', 'layer_1/norm'];
    expect(
      plotsOf(names)
        .filter(isImportant)
        .map(plot => plot.metric)
    ).toEqual(['loss', 'head_loss', 'top_5_accuracy', 'f1', 'learning_rate']);
  });
});

describe('replacedLines', () => {
  it('belong to the drawn tasks, and not to a mean', () => {
    const [loss] = plotsOf(['loss', 'val_loss']);
    const before = ['worker:0', 'worker:1'].map(task => ({ ...line('loss', task), name: `${task}, attempt 1` }));
    const shown = (mode: 'each' | 'mean', task?: string) => {
      const plot = { ...loss!, task };
      const drawn = plotLines(plot, name => (name === 'loss' ? [line('loss', ''), line('loss')] : []), mode);
      return replacedLines(plot, drawn, name => (name === 'loss' ? before : [])).map(({ name }) => name);
    };
    expect(shown('each')).toEqual(['loss of worker:0, attempt 1']);
    expect(shown('mean')).toEqual([]);
    expect(shown('each', 'worker:1')).toEqual([]);
  });
});

describe('plotLines', () => {
  const known = [line('loss', ''), line('loss', 'worker:0'), line('val_loss', 'worker:1'), line('loss', 'worker:1')];
  const lines = (metric: string) => known.filter(one => one.metric === metric);
  const [loss] = plotsOf(['val_loss', 'loss']);

  it('shows each task, or the mean if the server has computed one, with training first', () => {
    const keys = (mode: 'each' | 'mean') => plotLines(loss!, lines, mode).map(one => one.key);
    expect(keys('each')).toEqual(['worker:0', 'worker:1', 'worker:1|val']);
    expect(keys('mean')).toEqual(['', 'worker:1|val']);
  });

  it('shows the mean of many tasks, with their lines, unless all lines are requested', () => {
    const tasks = [0, 1, 2, 3].map(index => line('loss', `worker:${index}`));
    const shown = (count: number, mode: 'auto' | 'each' | 'mean') =>
      plotLines(plotsOf(['loss'])[0]!, () => [line('loss', ''), ...tasks.slice(0, count)], mode);
    expect(shown(3, 'auto').map(one => one.task)).toEqual(['worker:0', 'worker:1', 'worker:2']);
    expect(shown(4, 'auto').map(one => [one.task, one.parts?.length])).toEqual([['', 4]]);
    expect(shown(4, 'each')).toHaveLength(4);
    expect(shown(2, 'mean').map(one => one.parts?.length)).toEqual([2]);
    tasks[2]!.version = 7;
    expect(shown(4, 'auto')[0]!.version).toBe(7);
  });

  it('has a plot for each task if requested', () => {
    const plots = splitPlot(loss!, ['worker:0', 'worker:1']);
    expect(plots.map(plot => plot.title)).toEqual(['loss · worker:0', 'loss · worker:1']);
    expect(new Set(plots.map(plot => plot.id)).size).toBe(2);
    expect(plotLines(plots[1]!, lines, 'split').map(one => one.key)).toEqual(['worker:1', 'worker:1|val']);
  });

  it('has no lines for a metric without points', () => {
    expect(plotLines(plotsOf(['norm'])[0]!, lines, 'each')).toEqual([]);
  });
});

describe('compareTasks', () => {
  it('compares task indices as numbers', () => {
    expect(['worker:10', 'worker:2', 'chief:0'].sort(compareTasks)).toEqual(['chief:0', 'worker:2', 'worker:10']);
  });
});
