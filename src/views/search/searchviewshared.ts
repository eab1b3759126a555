import type { TranslationBundle } from '@jupyterlab/translation';

import { formatNumber } from '../../model/format';
import { parameterText, Search, Trial, TrialState } from '../../model/search';
import type { MarkKind } from '../stateicons';

/** What the parts of a search's view share. */
export interface Looking {
  search: Search;
  trans: TranslationBundle;
  /** Those that are chosen on the axes; all while nothing is. */
  chosen: readonly Trial[];
  /** The trial that is looked at, and what looks at another. */
  looked: Trial | null;
  onLook: (trial: Trial) => void;
}

/** A trial's state in the reader's language. */
export function trialStateText(state: TrialState, trans: TranslationBundle): string {
  switch (state) {
    case 'waiting':
      return trans.__('waiting');
    case 'running':
      return trans.__('running');
    case 'complete':
      return trans.__('complete');
    case 'pruned':
      return trans.__('pruned');
    case 'stopped':
      return trans.__('stopped');
    case 'failed':
      return trans.__('failed');
  }
}

/** The shape and colour that a state has in every list. */
export function markOf(state: TrialState): MarkKind {
  const marks: Record<TrialState, MarkKind> = {
    waiting: 'pending',
    running: 'running',
    complete: 'succeeded',
    pruned: 'paused',
    stopped: 'stopped',
    failed: 'failed'
  };
  return marks[state];
}

/** A number of a parameter or an objective. */
export function shown(value: unknown): string {
  return parameterText(value, formatNumber);
}

/** What a trial is, in a line: for tooltips and those who cannot see the plot. */
export function trialText(trial: Trial, search: Search, trans: TranslationBundle): string {
  const parameters = search.parameters.map(name => `${name} ${shown(trial.run.parameters[name])}`);
  const values = search.objectives.map(
    ({ metric }, index) => `${metric} ${shown(trial.values[index] ?? undefined) || '–'}`
  );
  return [trans.__('trial %1', trial.number), trialStateText(trial.state, trans), ...values, ...parameters].join(', ');
}
