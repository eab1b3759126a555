import type { ISignal } from '@lumino/signaling';

import { isLoad, isOfPair } from '../model/tasklinks';
import type { RunModel, XAxis } from '../model/run';
import type { Line, ReplacedLine } from '../model/series';
import type { Tick } from './axismarks';
import { arrange, Arrangement } from './plotarrangement';
import { Plot, plotsOf } from './metricplots';
import { taskColours } from './palette';
import type { PlotSource, SourceMark, SourceStretch } from './plotsource';

/** A run in a comparison, with the name of its line in each plot. */
export interface ComparedRun {
  model: RunModel;
  title: string;
}

/** Several runs in the same plots, one line for each: the mean of a run's tasks, or the line of its only task. */
export class ComparedRuns implements PlotSource {
  readonly changed: readonly ISignal<unknown, unknown>[];

  constructor(
    private readonly _runs: readonly ComparedRun[],
    readonly x: XAxis
  ) {
    this.changed = _runs.flatMap(({ model }) => [model.infoChanged, model.seriesChanged]);
  }

  get axis(): XAxis {
    return this.x;
  }

  /** Each run has its own origin: see `lines`. */
  get origin(): number {
    return 0;
  }

  get names(): string[] {
    const all = this._runs.flatMap(({ model }) => model.metrics);
    return [...new Set(all)].filter(metric => !isLoad(metric) && !isOfPair(metric));
  }

  get tasks(): string[] {
    return this._runs.map(({ title }) => title);
  }

  plots(): Plot[] {
    return plotsOf(this.names);
  }

  arrange(plots: readonly Plot[], pinned: readonly string[]): Arrangement {
    return arrange(plots, pinned);
  }

  lines(name: string): Line[] {
    return this._runs.flatMap(({ model, title }) => {
      if (model.x !== this.x) {
        return []; // a dashboard of this run has switched its lines to another axis
      }
      const lines = model.lines(name);
      const line = lines.find(({ task }) => task === '') ?? lines[0];
      return line ? [{ ...line, task: title, x: this._fromItsStart(model, line) }] : [];
    });
  }

  /** Seconds since the start of each run, so that runs of different days coincide. */
  private _fromItsStart(model: RunModel, line: Line): Float64Array {
    if (this.x === 'step') {
      return line.x;
    }
    const key = `${model.id}\n${line.metric}`;
    const known = this._moved.get(key);
    if (known?.version === line.version) {
      return known.x;
    }
    const x = line.x.map(time => time - model.origin);
    this._moved.set(key, { version: line.version, x });
    return x;
  }

  replaced(): ReplacedLine[] {
    return [];
  }

  xExtent(names: Iterable<string>): [number, number] | null {
    let [low, high] = [Infinity, -Infinity];
    for (const name of names) {
      for (const { x } of this.lines(name)) {
        if (x.length > 0) {
          low = Math.min(low, x[0]!);
          high = Math.max(high, x[x.length - 1]!);
        }
      }
    }
    return low <= high ? [low, high] : null;
  }

  get revision(): number {
    return this._runs.reduce((sum, { model }) => sum + model.revision, 0);
  }

  tips(names: Iterable<string>): number[] {
    const all = [...names];
    return this._runs.flatMap(({ model }) => {
      const origin = this.x === 'step' ? 0 : model.origin; // as in `lines`
      return model.tips(all).map(x => x - origin);
    });
  }

  want(viewer: object, names: readonly string[]): void {
    this._runs.forEach(({ model }) => {
      const known = new Set(model.metrics);
      model.want(
        viewer,
        names.filter(name => known.has(name))
      );
    });
  }

  needWidth(pixels: number): void {
    this._runs.forEach(({ model }) => model.needWidth(pixels));
  }

  colours(): ReadonlyMap<string, string> {
    return taskColours(this.tasks);
  }

  marks(): SourceMark[] {
    return [];
  }

  ticks(): Tick[] {
    return [];
  }

  stretches(): SourceStretch[] {
    return [];
  }

  private readonly _moved = new Map<string, { version: number; x: Float64Array }>();
}
