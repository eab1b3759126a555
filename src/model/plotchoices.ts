import { ISignal, Signal } from '@lumino/signaling';

/** The headings that the user has opened or folded and the metrics that they have pinned, in stored form. */
export interface KeptChoices {
  open: string[];
  folded: string[];
  pinned: string[];
}

// The oldest entries are dropped: all of them are sent with every change.
const MOST = 500;

/**
 * Which headings are open and which metrics are pinned. Shared by all dashboards, since names mean the same in every
 * run.
 */
export class PlotChoices {
  /** Emitted after every change. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get pinned(): readonly string[] {
    return this._pinned;
  }

  /** Whether the user opened or folded this heading; undefined if they did neither. */
  isOpen(key: string): boolean | undefined {
    return this._open.get(key);
  }

  setOpen(keys: readonly string[], open: boolean): void {
    for (const key of keys) {
      this._open.delete(key);
      this._open.set(key, open);
    }
    this._changed.emit();
  }

  setPinned(metric: string, pinned: boolean): void {
    this._pinned = [...this._pinned.filter(other => other !== metric), ...(pinned ? [metric] : [])];
    this._changed.emit();
  }

  /** Move a pinned metric by this many positions among all pinned metrics. */
  movePinned(metric: string, by: number): void {
    const from = this._pinned.indexOf(metric);
    const to = Math.min(this._pinned.length - 1, Math.max(0, from + by));
    if (from >= 0 && to !== from) {
      this._place(metric, to);
    }
  }

  /** Pin a metric just before another one, or last if that one is not pinned. */
  pinBefore(metric: string, other: string): void {
    if (metric !== other) {
      const others = this._pinned.filter(name => name !== metric);
      const at = others.indexOf(other);
      this._place(metric, at < 0 ? others.length : at);
    }
  }

  private _place(metric: string, at: number): void {
    const others = this._pinned.filter(name => name !== metric);
    this._pinned = [...others.slice(0, at), metric, ...others.slice(at)];
    this._changed.emit();
  }

  /** The state to be stored. */
  save(): KeptChoices {
    const newest = [...this._open].slice(-MOST);
    const keys = (wanted: boolean) => newest.filter(([, open]) => open === wanted).map(([key]) => key);
    return { open: keys(true), folded: keys(false), pinned: this._pinned.slice(-MOST) };
  }

  /** Restore a stored state; anything else is ignored. */
  load(kept: unknown): void {
    const { open, folded, pinned } = (kept ?? {}) as Partial<Record<keyof KeptChoices, unknown>>;
    this._open = new Map([
      ...texts(open).map((key): [string, boolean] => [key, true]),
      ...texts(folded).map((key): [string, boolean] => [key, false])
    ]);
    this._pinned = [...new Set(texts(pinned))];
    this._changed.emit();
  }

  private _open = new Map<string, boolean>();
  private _pinned: readonly string[] = [];
  private readonly _changed = new Signal<this, void>(this);
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter(item => typeof item === 'string').slice(-MOST) : [];
}
