import type { ISignal } from '@lumino/signaling';

import type { MachinesModel } from '../model/machinefigures';
import type { Line, ReplacedLine } from '../model/series';
import type { Stretch, Tick } from './axismarks';
import type { Arrangement, Family } from './families';
import type { Plot } from './groups';
import { taskColours } from './palette';
import type { PlotSource, SourceMark } from './source';

/** The plots of a cluster's machines: a heading for each host, and below it what the server says of its figures. */
export class MachinePlots implements PlotSource {
  readonly changed: readonly ISignal<unknown, unknown>[];
  readonly x = 'time';
  readonly axis = 'time';
  readonly tasks: readonly string[] = [];

  constructor(private readonly _machines: MachinesModel) {
    this.changed = [_machines.changed];
  }

  get origin(): number {
    return this._machines.from;
  }

  get names(): string[] {
    return this._machines.names;
  }

  plots(): Plot[] {
    return this._machines.plots.map(({ host, title, unit, lines }) => ({
      id: `${host}\0${title}`,
      metric: title,
      title: `${title} · ${host}`,
      heading: title,
      group: host,
      unit,
      names: lines.map(({ name }) => name),
      small: true
    }));
  }

  arrange(plots: readonly Plot[]): Arrangement {
    const families = new Map<string, Family>();
    for (const plot of plots) {
      const host = plot.group ?? '';
      const family = families.get(host) ?? { key: `host\0${host}`, title: host, plots: [], families: [], count: 0 };
      family.plots.push(plot);
      family.count += 1;
      families.set(host, family);
    }
    return { top: [], families: [...families.values()] };
  }

  lines(name: string): Line[] {
    return this._machines.lines(name);
  }

  xExtent(names: Iterable<string>): [number, number] | null {
    return this._machines.xExtent(names);
  }

  /** All of them come at once. */
  want(): void {}

  needWidth(): void {}

  colours(plot: Plot): ReadonlyMap<string, string> {
    return taskColours(plot.names.flatMap(name => this.lines(name).map(line => line.task)));
  }

  /** A machine does nothing twice. */
  replaced(): ReplacedLine[] {
    return [];
  }

  marks(): SourceMark[] {
    return [];
  }

  ticks(): Tick[] {
    return [];
  }

  stretches(): Stretch[] {
    return [];
  }
}
