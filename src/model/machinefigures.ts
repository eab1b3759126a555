import { ISignal, Signal } from '@lumino/signaling';

import type { MachineSeries } from '../api/schema';
import { messageOf } from './errormessage';
import type { Unit } from './format';
import { Line, SeriesStore } from './series';

/** A plot of one host as described by the server, and its series. */
export interface MachinePlot {
  host: string;
  title: string;
  unit: Unit;
  lines: { name: string; label: string }[];
}

/** One metric, for all hosts that have it. */
export interface MachineFigure {
  key: string;
  /** The title of its plot, and its label there. */
  title: string;
  label: string;
  unit: Unit;
}

/** Polling interval, ms. Hosts report every two seconds. */
export const POLL_MS = 4000;
// Lines with more points are fetched again: for anything older than an hour, the server keeps one mean per minute.
const MOST_POINTS = 4000;
// The time for which machines are shown after the end of the run, s.
const AFTER_END_S = 10;
// Hosts may report up to this much later, s.
const LATE_S = 30;

/** The state of the machines of a run's cluster during the run. Polled while visible. */
export class MachinesModel {
  /** `from`: start of the run, in seconds since the epoch. `ask` fetches all points newer than a given time. */
  constructor(
    readonly from: number,
    private readonly _ask: (after: number) => Promise<MachineSeries[]>
  ) {
    this._after = from;
  }

  /** Emitted when points have arrived, or when a problem has occurred or been resolved. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether a response has been received at least once. */
  get isReady(): boolean {
    return this._ready;
  }

  /** Why no data is arriving; empty if it is. */
  get problem(): string {
    return this._problem;
  }

  /** The plots of each host, in the order in which the server reports the hosts. */
  get plots(): readonly MachinePlot[] {
    return [...this._plots.values()];
  }

  /** The hosts with any data. */
  get hosts(): readonly string[] {
    return [...this._hosts];
  }

  /** The metrics that any host has. */
  get figures(): readonly MachineFigure[] {
    return [...this._figures.values()].map(({ figure }) => figure);
  }

  /** The names of a metric's series on all hosts. */
  namesOf(key: string): readonly string[] {
    return [...(this._figures.get(key)?.names.values() ?? [])];
  }

  /** The lines of a metric, with the host's name as `task`. */
  linesOf(key: string): Line[] {
    const names = this._figures.get(key)?.names ?? new Map<string, string>();
    return [...names].flatMap(([host, name]) => this.lines(name).map(line => ({ ...line, task: host })));
  }

  /** Incremented whenever points arrive. */
  get version(): number {
    return this._version;
  }

  /** All series. */
  get names(): string[] {
    return [...this._points.keys()];
  }

  lines(name: string): Line[] {
    return this._series.lines(name);
  }

  xExtent(names: Iterable<string>): [number, number] | null {
    return this._series.xExtent(names);
  }

  tips(names: Iterable<string>): number[] {
    return this._series.tips(names);
  }

  /** Set when the run ended, in seconds since the epoch; null while it is running. */
  setEnd(ended: number | null): void {
    this._until = ended === null ? Infinity : ended + AFTER_END_S;
  }

  /** Call when the data becomes visible: start polling. */
  follow(): void {
    if (!this._following) {
      this._following = true;
      void this._poll();
    }
  }

  /** Call when the data is no longer visible: stop polling. The data is kept. */
  rest(): void {
    this._following = false;
    clearTimeout(this._timer);
  }

  private async _poll(): Promise<void> {
    clearTimeout(this._timer);
    if (this._asking || this._complete) {
      return;
    }
    this._asking = true;
    const asked = Date.now() / 1000;
    let problem = '';
    try {
      this._apply(await this._ask(this._after));
      this._ready = true;
      this._complete = asked > this._until + LATE_S;
    } catch (error) {
      problem = messageOf(error);
    }
    this._asking = false;
    this._version += 1;
    this._problem = problem;
    this._changed.emit();
    if (this._following && !this._complete) {
      this._timer = setTimeout(() => void this._poll(), POLL_MS);
    }
  }

  private _apply(all: readonly MachineSeries[]): void {
    // Hosts report at different times: the one that is furthest behind determines where the next request starts.
    const newest = new Map<string, number>();
    for (const series of all) {
      newest.set(series.host, Math.max(newest.get(series.host) ?? 0, ...series.time.slice(-1)));
      this._add(series);
    }
    if (newest.size > 0) {
      this._after = Math.max(this.from, Math.min(...newest.values()));
    }
    if (Math.max(0, ...[...this._points.values()].map(({ count }) => count)) > MOST_POINTS) {
      this._points.forEach(points => Object.assign(points, { count: 0, last: -Infinity }));
      this._after = this.from;
    }
  }

  private _add({ host, metric, plot, line, unit, time, value }: MachineSeries): void {
    const name = `${host}\0${metric}`;
    const known = this._points.get(name) ?? { count: 0, last: -Infinity };
    const fresh = [...time.keys()].filter(
      index => time[index]! > known.last && time[index]! >= this.from && time[index]! <= this._until
    );
    if (fresh.length === 0) {
      return;
    }
    if (!this._points.has(name)) {
      this._points.set(name, known);
      this._hosts.add(host);
      const figure = { key: metric, title: plot || metric, label: line || plot || metric, unit: unit || 'number' };
      const all = this._figures.get(metric) ?? { figure, names: new Map<string, string>() };
      this._figures.set(metric, all);
      all.names.set(host, name);
      this._describe(host, plot || metric, unit, { name, label: line || metric });
    }
    const [x, y] = [fresh.map(index => time[index]!), fresh.map(index => value[index]!)];
    this._series.apply({ metric: name, task: line || metric, start: known.count, x, y, replaced: '' });
    known.count += fresh.length;
    known.last = x[x.length - 1]!;
  }

  private _describe(host: string, title: string, unit: string, line: MachinePlot['lines'][number]): void {
    // Each unit needs an axis of its own.
    const key = [host, title, unit].join('\0');
    const plot = this._plots.get(key);
    if (plot) {
      plot.lines.push(line);
    } else {
      this._plots.set(key, { host, title, unit: unit || 'number', lines: [line] });
    }
  }

  private _after: number;
  private _until = Infinity;
  private _following = false;
  private _asking = false;
  private _complete = false;
  private _ready = false;
  private _version = 0;
  private _problem = '';
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private readonly _hosts = new Set<string>();
  private readonly _figures = new Map<string, { figure: MachineFigure; names: Map<string, string> }>();
  private readonly _points = new Map<string, { count: number; last: number }>();
  private readonly _plots = new Map<string, MachinePlot>();
  private readonly _series = new SeriesStore();
  private readonly _changed = new Signal<this, void>(this);
}
