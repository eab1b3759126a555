import { ISignal, Signal } from '@lumino/signaling';

import { PlotChoices } from './plotchoices';
import type { XAxis } from './run';

/** The user's settings; see schema/settings.json. */
export interface PreferenceValues {
  xAxis: XAxis;
  tasks: 'auto' | 'each' | 'mean' | 'split';
  smoothing: number;
  logScale: boolean;
  updatesPerSecond: number;
  followOutput: boolean;
  openOnStart: boolean;
  /** The runs whose end is announced by a notification. */
  tellOfEnds: 'all' | 'failed' | 'none';
  /** The minimum duration of such a run, s. */
  longRun: number;
  statusBar: boolean;
}

export const DEFAULT_PREFERENCES: Readonly<PreferenceValues> = {
  xAxis: 'step',
  tasks: 'auto',
  smoothing: 0,
  logScale: false,
  updatesPerSecond: 10,
  followOutput: true,
  openOnStart: false,
  tellOfEnds: 'all',
  longRun: 60,
  statusBar: true
};

/** The current preferences: the defaults until the settings have been loaded. */
export class Preferences {
  /** Which headings the user has opened or folded, and which metrics they have pinned. */
  readonly plots = new PlotChoices();

  get values(): Readonly<PreferenceValues> {
    return this._values;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  set(values: Partial<PreferenceValues>): void {
    this._values = { ...DEFAULT_PREFERENCES, ...values };
    this._changed.emit();
  }

  private _values: Readonly<PreferenceValues> = DEFAULT_PREFERENCES;
  private readonly _changed = new Signal<this, void>(this);
}
