import type { ISignal } from '@lumino/signaling';

import type { MachinesModel } from '../model/machinefigures';
import type { Line, ReplacedLine } from '../model/series';
import { meanOf, taskHeat } from '../model/taskheat';
import type { Tick } from './axismarks';
import type { Arrangement, Family } from './plotarrangement';
import type { Plot } from './metricplots';
import { taskColours } from './palette';
import type { PlotSource, SourceMark, SourceStretch } from './plotsource';

// With more hosts than this, aggregate plots of all hosts come first.
const FEW_HOSTS = 8;
const ALL = '\0all';
// Maximum number of points of a mean.
const MOST_POINTS = 400;

/** Texts for the plots of many hosts. */
export interface MachineWords {
  all: (hosts: number) => string;
  each: string;
}

/**
 * The plots of a cluster's machines: one heading for each host with the metrics that the server declares. If there are
 * many hosts, the mean with its range comes first, and the individual hosts are folded.
 */
export class MachinePlots implements PlotSource {
  readonly changed: readonly ISignal<unknown, unknown>[];
  readonly x = 'time';
  readonly axis = 'time';
  readonly tasks: readonly string[] = [];

  constructor(
    private readonly _machines: MachinesModel,
    private readonly _words: MachineWords
  ) {
    this.changed = [_machines.changed];
  }

  get origin(): number {
    return this._machines.from;
  }

  get names(): string[] {
    return this._machines.names;
  }

  plots(): Plot[] {
    return [...this._together(), ...this._each()];
  }

  private _each(): Plot[] {
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
    const together = plots.filter(({ group }) => group === ALL);
    for (const plot of plots) {
      if (plot.group === ALL) {
        continue;
      }
      const host = plot.group ?? '';
      const family = families.get(host) ?? { key: `host\0${host}`, title: host, plots: [], families: [], count: 0 };
      family.plots.push(plot);
      family.count += 1;
      families.set(host, family);
    }
    const each = [...families.values()];
    if (together.length === 0) {
      return { top: [], families: each };
    }
    const count = each.reduce((sum, family) => sum + family.count, 0);
    const title = this._words.all(this._machines.hosts.length);
    return {
      top: [],
      families: [
        { key: ALL, title, plots: together, families: [], count: together.length },
        { key: `${ALL} each`, title: this._words.each, plots: [], families: each, count }
      ]
    };
  }

  /** One plot over all hosts for each metric, if there are many hosts. */
  private _together(): Plot[] {
    if (this._machines.hosts.length <= FEW_HOSTS) {
      return [];
    }
    return this._machines.figures.map(({ key, title, label, unit }) => ({
      id: `${ALL}\0${key}`,
      metric: title,
      title: label === title ? title : `${title} · ${label}`,
      heading: label === title ? title : `${title} · ${label}`,
      group: ALL,
      unit,
      names: [`${ALL}\0${key}`],
      small: true
    }));
  }

  /** The lines of a single host, or those of all hosts with their mean. */
  lines(name: string): Line[] {
    const key = figureOf(name);
    return key === null ? this._machines.lines(name) : this._ofAll(key);
  }

  private _ofAll(key: string): Line[] {
    const version = this._machines.version;
    const known = this._known.get(key);
    if (known?.version === version) {
      return known.lines;
    }
    const each = this._machines.linesOf(key);
    const heat = taskHeat(
      each,
      each.map(({ task }) => task),
      MOST_POINTS
    );
    const lines = heat ? [{ metric: key, task: '', ...meanOf(heat), version: newestOf(each) }, ...each] : each;
    this._known.set(key, { version, lines });
    return lines;
  }

  xExtent(names: Iterable<string>): [number, number] | null {
    return this._machines.xExtent(this._series(names));
  }

  tips(names: Iterable<string>): number[] {
    return this._machines.tips(this._series(names));
  }

  private _series(names: Iterable<string>): string[] {
    return [...names].flatMap(name => {
      const key = figureOf(name);
      return key === null ? [name] : this._machines.namesOf(key);
    });
  }

  /** All series are always loaded. */
  want(): void {}

  needWidth(): void {}

  colours(plot: Plot): ReadonlyMap<string, string> {
    return taskColours(plot.names.flatMap(name => this.lines(name).map(line => line.task)));
  }

  /** Values of machines are never replaced. */
  replaced(): ReplacedLine[] {
    return [];
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

  private readonly _known = new Map<string, { version: number; lines: Line[] }>();
}

/** The metric of an aggregate series; null for a series of a single host. */
function figureOf(name: string): string | null {
  return name.startsWith(`${ALL}\0`) ? name.slice(ALL.length + 1) : null;
}

function newestOf(lines: readonly Line[]): number {
  return lines.reduce((newest, { version }) => Math.max(newest, version), 0);
}
