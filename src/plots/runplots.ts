import { ISignal, Signal } from '@lumino/signaling';

import { isLoad, isOfPair } from '../model/tasklinks';
import { markText } from '../model/runmarks';
import type { RunModel } from '../model/run';
import { scaleOf, ShownAxis } from '../model/shownaxis';
import type { Line, ReplacedLine } from '../model/series';
import { Zoom } from '../model/zoom';
import type { Tick } from './axismarks';
import { arrange, Arrangement } from './plotarrangement';
import { Plot, plotsOf } from './metricplots';
import { taskColours } from './palette';
import type { PlotSource, SourceMark, SourceStretch } from './plotsource';

/** The metrics of the model's quality, or those of the load on the machines. */
export type MetricsOf = 'model' | 'load';

/** The plots of the metrics that a run's tasks report. */
export class RunPlots implements PlotSource {
  readonly changed: readonly ISignal<unknown, unknown>[];
  readonly refined: ISignal<this, void>;

  constructor(
    private readonly _run: RunModel,
    private readonly _of: MetricsOf
  ) {
    this.changed = [_run.infoChanged, _run.seriesChanged, _run.storyChanged];
    const refined = new Signal<this, void>(this);
    this.refined = refined;
    const fetch = _run.fetchPart;
    this._zoom = fetch && new Zoom(_run, fetch, () => refined.emit());
  }

  get x(): ShownAxis {
    return this._run.shownX;
  }

  /** The "step" of a load metric is the time since the task started, in seconds. */
  get axis(): ShownAxis {
    return this._of === 'load' ? 'time' : this.x;
  }

  get origin(): number {
    return this._run.x === 'time' && this.axis !== 'wall' ? this._run.origin : 0;
  }

  get scale(): number {
    return scaleOf(this.axis, this._run.pace);
  }

  get names(): string[] {
    return this._run.metrics.filter(metric => isLoad(metric) === (this._of === 'load') && !isOfPair(metric));
  }

  get tasks(): string[] {
    return this._run.info.tasks.map(({ task }) => task);
  }

  get slow(): Readonly<Record<string, string>> {
    return this._run.info.slow;
  }

  plots(): Plot[] {
    return plotsOf(this.names);
  }

  arrange(plots: readonly Plot[], pinned: readonly string[]): Arrangement {
    return arrange(plots, this._of === 'load' ? [] : pinned);
  }

  lines(name: string): Line[] {
    return this._zoom?.lines(name) ?? this._run.lines(name);
  }

  replaced(name: string): ReplacedLine[] {
    return this._zoom?.replaced(name) ?? this._run.replaced(name);
  }

  look(limits: readonly [number, number] | null, names: readonly string[]): void {
    const { origin, scale } = this;
    this._zoom?.look(limits && [limits[0] / scale + origin, limits[1] / scale + origin], names);
  }

  xExtent(names: Iterable<string>): [number, number] | null {
    return this._run.xExtent(names);
  }

  get revision(): number {
    return this._run.revision;
  }

  tips(names: Iterable<string>): number[] {
    return this._run.tips(names);
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

  /** Marks of one metric appear on its plot only. */
  marks({ names }: Plot): SourceMark[] {
    return this._run.marks
      .filter(({ metric }) => metric === undefined || names.includes(metric))
      .map(mark => ({
        x: this._at(mark),
        label: [markText(mark), ...(mark.details ?? [])].join('\n'),
        task: mark.metric === undefined ? mark.task : ''
      }));
  }

  /** The checkpoints. */
  ticks(): Tick[] {
    return this._run.checkpoints.map(({ step, time, label }) => ({
      x: this._at({ step, time })!,
      step,
      label
    }));
  }

  /** Intervals in which steps were executed a second time. */
  stretches(): SourceStretch[] {
    return this._run.doneAgain.map(({ first, last, begun, ended }) => {
      const [start, end] = [first, last].map((step, index) =>
        this._at({ step, time: index === 0 ? begun : ended })
      ) as [number, number];
      return { start, end, first, last };
    });
  }

  /** A point in time on the axis; null while unknown. */
  private _at(moment: { time: number; step?: number }): number | null {
    if (this._of === 'load') {
      return this._run.lifeAt(moment.time);
    }
    if (this.axis === 'wall') {
      return moment.time;
    }
    const x = this._run.markX(moment);
    return x === null ? null : x * this.scale;
  }

  private readonly _zoom: Zoom | null;
}
