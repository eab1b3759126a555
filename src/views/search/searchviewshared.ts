import type { TranslationBundle } from '@jupyterlab/translation';

import { formatNumber } from '../../model/format';
import { parameterText, Search, Trial, TrialState } from '../../model/search';
import type { MarkKind } from '../stateicons';

/** The properties that the parts of a search's view share. */
export interface SearchViewProps {
  search: Search;
  trans: TranslationBundle;
  /** The trials within the brushes; all if there are none. */
  chosen: readonly Trial[];
  /** The selected trial, and a function that selects another. */
  looked: Trial | null;
  onLook: (trial: Trial) => void;
}

/** A trial's state in the user's language. */
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

/** The icon of a state in all lists. */
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

/** The value of a parameter or an objective, as text. */
export function shown(value: unknown): string {
  return parameterText(value, formatNumber);
}

/** A trial in one line, for tooltips and screen readers. */
export function trialText(trial: Trial, search: Search, trans: TranslationBundle): string {
  const parameters = search.parameters.map(name => `${name} ${shown(trial.run.parameters[name])}`);
  const values = search.objectives.map(
    ({ metric }, index) => `${metric} ${shown(trial.values[index] ?? undefined) || '–'}`
  );
  return [trans.__('trial %1', trial.number), trialStateText(trial.state, trans), ...values, ...parameters].join(', ');
}
