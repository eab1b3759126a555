import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import type React from 'react';

import type { RunModel } from '../../model/run';
import type { IDtf } from '../../tokens';

/** The parts of the application that a dashboard uses. */
export interface DashboardOptions {
  run: string;
  dtf: IDtf;
  trans: TranslationBundle;
  themeChanged: ISignal<unknown, unknown> | null;
  stop(run: string): void;
  pause(run: string): void;
  continue(run: string): void;
  open(run: string): void;
  /** Ask the user on which cluster to resume a run. */
  resume(run: string, at: HTMLElement): void;
  menu(run: string, at: HTMLElement): void;
}

export interface TabProps {
  model: RunModel;
  options: DashboardOptions;
}

/** A tab of a run's dashboard. It is created when first shown, and connects to the model's signals itself. */
export interface DashboardTab {
  id: string;
  /** Its label; recomputed whenever the run's description or its events change. */
  title: (model: RunModel, trans: TranslationBundle) => string;
  View: React.ComponentType<TabProps>;
}
