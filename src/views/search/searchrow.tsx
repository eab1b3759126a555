import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { RunInfo } from '../../api/schema';
import { countsOf, Search, searchesOf } from '../../model/search';
import { IconButton } from '../controls';
import { Mark } from '../stateicons';
import { momentText, whenText } from '../localizedtext';
import { shown, trialStateText } from './searchviewshared';

/** A row of the list of runs: a run, or a search with all its trials. */
export type RunItem = RunInfo | Search;

export function isSearch(item: RunItem): item is Search {
  return 'trials' in item;
}

/**
 * The runs, with the trials of each search combined into one row at the position of the newest; the trials of an `open`
 * search follow it.
 */
export function folded(runs: readonly RunInfo[], open: ReadonlySet<string>): RunItem[] {
  const searches = new Map(searchesOf(runs).map(search => [search.id, search]));
  const items: RunItem[] = [];
  for (const run of runs) {
    const search = run.trial ? searches.get(run.trial.search) : undefined;
    if (run.trial && search) {
      searches.delete(search.id);
      items.push(search, ...(open.has(search.id) ? search.trials.map(trial => trial.run).reverse() : []));
    } else if (!run.trial) {
      items.push(run);
    }
  }
  return items;
}

/** A search in the list of runs. */
export function SearchRow(props: {
  search: Search;
  open: boolean;
  now: number;
  trans: TranslationBundle;
  onFold: (id: string) => void;
  onOpen: (id: string) => void;
}): React.ReactElement {
  const { search, open, trans } = props;
  const counts = countsOf(search.trials);
  const ended = search.trials.length - (counts.get('waiting') ?? 0) - (counts.get('running') ?? 0);
  const [best] = search.best;
  const parts = [
    search.isRunning && search.most > 0
      ? trans.__('%1/%2 trials', ended, Math.max(ended, search.most))
      : trans._n('%1 trial', '%1 trials', search.trials.length),
    ...(['running', 'failed'] as const)
      .filter(state => counts.has(state))
      .map(state => `${counts.get(state)} ${trialStateText(state, trans)}`)
  ];
  return (
    <div role="listitem" className="jp-dtf-row jp-dtf-run jp-dtf-search-row" data-search={search.id}>
      <IconButton
        icon={open ? caretDownIcon : caretRightIcon}
        label={
          open ? trans.__('Collapse the trials of %1', search.name) : trans.__('Expand the trials of %1', search.name)
        }
        onClick={() => props.onFold(search.id)}
      />
      <button
        type="button"
        className="jp-dtf-run-open"
        aria-label={trans.__('Open the search %1, %2', search.name, parts.join(', '))}
        onClick={() => props.onOpen(search.id)}
      >
        <span className="jp-dtf-row-head">
          <Mark
            kind={search.isRunning ? 'running' : 'succeeded'}
            name={search.isRunning ? trans.__('running') : trans.__('ended')}
          />
          <span className="jp-dtf-name" title={search.name}>
            {search.name}
          </span>
          <time
            className="jp-dtf-when jp-dtf-faint"
            dateTime={new Date(1000 * search.newest).toISOString()}
            title={momentText(search.newest)}
          >
            {whenText(search.newest, props.now, trans)}
          </time>
        </span>
        <span className="jp-dtf-row-detail">
          <span className="jp-dtf-faint jp-dtf-run-facts">{parts.join(' · ')}</span>
          {best && search.objectives.length === 1 && (
            <span className="jp-dtf-objective jp-dtf-number" title={search.objectives[0]!.metric}>
              <span className="jp-dtf-faint">{trans.__('best')}</span> {shown(best.value)}
            </span>
          )}
        </span>
      </button>
    </div>
  );
}
