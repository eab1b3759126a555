import type { ISignal } from '@lumino/signaling';

import { isLoad, isOfPair } from '../model/links';
import { markText } from '../model/runmarks';
import type { RunModel, XAxis } from '../model/run';
import type { Line, ReplacedLine } from '../model/series';
import type { Stretch, Tick } from './axismarks';
import { arrange, Arrangement } from './families';
import { Plot, plotsOf } from './groups';
import { taskColours } from './palette';
import type { PlotSource, SourceMark } from './source';

/** The metrics that say how the model does, or those that say what tasks take of their machines. */
export type MetricsOf = 'model' | 'load';

/** The plots of what a run's tasks report. */
export class RunPlots implements PlotSource {
  readonly changed: readonly ISignal<unknown, unknown>[];

  constructor(
    private readonly _run: RunModel,
    private readonly _of: MetricsOf
  ) {
    this.changed = [_run.infoChanged, _run.seriesChanged, _run.storyChanged];
  }

  get x(): XAxis {
    return this._run.x;
  }

  /** The step of a load is the second of the task's life. */
  get axis(): XAxis {
    return this._of === 'load' ? 'time' : this.x;
  }

  get origin(): number {
    return this.x === 'time' ? this._run.origin : 0;
  }

  get names(): string[] {
    return this._run.metrics.filter(metric => isLoad(metric) === (this._of === 'load') && !isOfPair(metric));
  }

  get tasks(): string[] {
    return this._run.info.tasks.map(({ task }) => task);
  }

  plots(): Plot[] {
    return plotsOf(this.names);
  }

  arrange(plots: readonly Plot[], pinned: readonly string[]): Arrangement {
    return arrange(plots, this._of === 'load' ? [] : pinned);
  }

  lines(name: string): Line[] {
    return this._run.lines(name);
  }

  replaced(name: string): ReplacedLine[] {
    return this._run.replaced(name);
  }

  xExtent(names: Iterable<string>): [number, number] | null {
    return this._run.xExtent(names);
  }

  want(viewer: object, names: readonly string[]): void {
    this._run.want(viewer, names);
  }

  needWidth(pixels: number): void {
    this._run.needWidth(pixels);
  }

  colours(): ReadonlyMap<string, string> {
    return taskColours(this.tasks);
  }

  /** Those of one metric are on its plot alone. */
  marks({ names }: Plot): SourceMark[] {
    return this._run.marks
      .filter(({ metric }) => metric === undefined || names.includes(metric))
      .map(mark => ({
        x: this._of === 'load' ? this._run.lifeAt(mark.time) : this._run.markX(mark),
        label: [markText(mark), ...(mark.details ?? [])].join('\n'),
        task: mark.metric === undefined ? mark.task : ''
      }));
  }

  /** The checkpoints. */
  ticks(): Tick[] {
    return this._run.checkpoints.map(({ step, time, label }) => ({
      x: this._of === 'load' ? this._run.lifeAt(time) : this._run.markX({ step, time })!,
      step,
      label
    }));
  }

  /** Where steps were done a second time. */
  stretches(): Stretch[] {
    return this._run.doneAgain.map(({ first, last, begun, ended }) => {
      const label = `steps ${first} to ${last} were done a second time`;
      if (this._of === 'load') {
        return { start: this._run.lifeAt(begun), end: this._run.lifeAt(ended), label };
      }
      const [start, end] = [first, last].map((step, index) =>
        this._run.markX({ step, time: index === 0 ? begun : ended })
      ) as [number, number];
      return { start, end, label };
    });
  }
}
