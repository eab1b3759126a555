import { ISignal, Signal } from '@lumino/signaling';

import { DEFAULTS, type Forecast, type ForecastSettings } from '../api/schema';
import { messageOf } from './errormessage';

/** The user's settings for a forecast. */
export interface ForecastChoices {
  /** Ids of the strategies, in the order of `WAYS`. */
  ways: readonly string[];
  /** Empty: as measured. */
  device: string;
  precision: string;
  /** Empty: as measured, or a typical network. */
  network: string;
  transport: string;
  /** Whether `batch` is the size of the batch on each device, whatever their number, or of the global batch. */
  batchOf: 'device' | 'all';
  /** 0: the design's batch size. */
  batch: number;
  /** The largest number of tasks. */
  upTo: number;
}

/** A strategy that can be chosen, with its value in the settings. */
export interface Way {
  id: string;
  settings: Partial<ForecastSettings>;
}

export const WAYS: readonly Way[] = [
  { id: 'allreduce', settings: { strategy: 'allreduce' } },
  { id: 'ring', settings: { strategy: 'allreduce', algorithm: 'ring' } },
  { id: 'hierarchical', settings: { strategy: 'allreduce', algorithm: 'hierarchical' } },
  { id: 'tree', settings: { strategy: 'allreduce', algorithm: 'tree' } },
  { id: 'ps', settings: { strategy: 'ps', sync: true } },
  { id: 'ps-async', settings: { strategy: 'ps', sync: false } },
  { id: 'pipeline', settings: { strategy: 'pipeline' } }
];

export const MOST_TASKS = 4096;
const FIRST: ForecastChoices = {
  ways: ['allreduce', 'ps'],
  device: '',
  precision: 'fp32',
  network: '',
  transport: 'tcp',
  batchOf: 'device',
  batch: 0,
  upTo: 512
};
// Delay after which a typed number counts as complete.
const WAIT_MS = 200;

/** 1, 2, 4, … up to and including a number of tasks. */
export function tasksUpTo(most: number): number[] {
  const found = [];
  for (let tasks = 1; tasks < most; tasks *= 2) {
    found.push(tasks);
  }
  return [...found, most];
}

/** The requests to the server, one for each strategy. */
export function settingsOf(choices: ForecastChoices, ways: readonly Way[]): ForecastSettings[] {
  const { device, precision, network, transport, batchOf, batch, upTo } = choices;
  const common = {
    ...DEFAULTS.ForecastSettings,
    link: null,
    tasks: tasksUpTo(upTo),
    device,
    precision,
    network,
    transport,
    ...(batchOf === 'all' ? { batch_size: batch } : { per_device: batch })
  };
  return ways.filter(({ id }) => choices.ways.includes(id)).map(({ settings }) => ({ ...common, ...settings }));
}

/** Forecasts for the current settings, requested again whenever these change. */
export class ForecastModel {
  /** `ways`: the available strategies; at least one is always chosen. */
  constructor(
    private readonly _ask: (settings: ForecastSettings[], signal: AbortSignal) => Promise<Forecast[]>,
    readonly ways: readonly Way[] = WAYS
  ) {
    const known = ways.map(({ id }) => id);
    const first = FIRST.ways.filter(id => known.includes(id));
    this._choices = { ...FIRST, ways: first.length > 0 ? first : known.slice(0, 1) };
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get choices(): ForecastChoices {
    return this._choices;
  }

  /** The forecasts; those of the previous settings until the new ones arrive. */
  get forecasts(): readonly Forecast[] {
    return this._forecasts;
  }

  get isAsking(): boolean {
    return this._running !== null;
  }

  /** Why there is no forecast; empty if there is one or it is on its way. */
  get problem(): string {
    return this._problem;
  }

  get settings(): ForecastSettings[] {
    return settingsOf(this._choices, this.ways);
  }

  choose(change: Partial<ForecastChoices>): void {
    const next = { ...this._choices, ...change };
    if (next.ways.length === 0) {
      return;
    }
    this._choices = next;
    this.refresh();
  }

  /** Call when the forecast's subject has changed or is shown for the first time. */
  refresh(): void {
    clearTimeout(this._timer);
    this._running?.abort();
    const mine = (this._running = new AbortController());
    this._timer = setTimeout(() => void this._fetch(mine), WAIT_MS);
    this._changed.emit();
  }

  /** Call when the forecast is no longer visible. */
  rest(): void {
    clearTimeout(this._timer);
    this._running?.abort();
    this._running = null;
  }

  private async _fetch(mine: AbortController): Promise<void> {
    let found: Forecast[] = [];
    let problem = '';
    try {
      found = await this._ask(this.settings, mine.signal);
    } catch (error) {
      problem = messageOf(error);
    }
    if (this._running === mine) {
      this._running = null;
      this._forecasts = found;
      this._problem = problem;
      this._changed.emit();
    }
  }

  private _choices: ForecastChoices;
  private _forecasts: readonly Forecast[] = [];
  private _problem = '';
  private _running: AbortController | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private readonly _changed = new Signal<this, void>(this);
}
