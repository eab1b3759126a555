import type { TranslationBundle } from '@jupyterlab/translation';
import { searchIcon, stopIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { RunInfo } from '../api/schema';
import { formatDuration, formatJobs, formatPercent, formatValue, metricTitle, unitOf } from '../model/format';
import { canStop, fractionDone, isFinal, objective, reason, secondsTaken } from '../model/state';
import { IconButton, Section, StateMark } from './basics';
import { useNow } from './hooks';
import { Sparkline } from './sparkline';
import { stateText } from './words';

export function RunRow(props: {
  run: RunInfo;
  now: number;
  trans: TranslationBundle;
  onOpen: (id: string) => void;
  onStop: (id: string) => void;
  onMenu: (id: string, at: HTMLElement) => void;
}): React.ReactElement {
  const { run, trans } = props;
  const value = objective(run);
  const fraction = fractionDone(run);
  const why = reason(run);
  const unhappy = run.state === 'failed' || run.state === 'lost';
  return (
    <li
      className="jp-dtf-row jp-dtf-run"
      data-run={run.id}
      onContextMenu={event => {
        event.preventDefault();
        event.stopPropagation();
        props.onMenu(run.id, event.currentTarget);
      }}
    >
      <button
        type="button"
        className="jp-dtf-run-open"
        aria-label={trans.__('Open the dashboard of %1, %2', run.name, stateText(run.state, trans))}
        onClick={() => props.onOpen(run.id)}
      >
        <span className="jp-dtf-row-head">
          <StateMark state={run.state} trans={trans} />
          <span className="jp-dtf-name">{run.name}</span>
          <Sparkline values={run.sparkline} label={trans.__('Course of the loss')} />
          {fraction !== null && !isFinal(run.state) && (
            <span className="jp-dtf-number jp-dtf-percent">{formatPercent(fraction)}</span>
          )}
          <span className="jp-dtf-number jp-dtf-objective" title={value ? metricTitle(value[0]) : undefined}>
            {value ? formatValue(value[1], unitOf(value[0])) : ''}
          </span>
        </span>
        <span className="jp-dtf-row-detail">
          {unhappy && why !== '' ? (
            <span className="jp-dtf-problem" title={why}>
              {why}
            </span>
          ) : (
            <span className="jp-dtf-faint" title={why === '' ? undefined : why}>
              {[stateText(run.state, trans), formatJobs(run.jobs), formatDuration(secondsTaken(run, props.now))]
                .filter(part => part !== '')
                .join(' · ')}
              {why !== '' && ` · ${why}`}
            </span>
          )}
        </span>
      </button>
      {canStop(run.state) && (
        <IconButton icon={stopIcon} label={trans.__('Stop %1', run.name)} onClick={() => props.onStop(run.id)} />
      )}
    </li>
  );
}

/** The panel's part on runs. */
export function Runs(props: {
  runs: readonly RunInfo[];
  ready: boolean;
  trans: TranslationBundle;
  onOpen: (id: string) => void;
  onStop: (id: string) => void;
  onMenu: (id: string, at: HTMLElement) => void;
}): React.ReactElement {
  const { runs, trans } = props;
  const [searching, setSearching] = React.useState(false);
  const [query, setQuery] = React.useState('');
  const now = useNow(runs.some(run => !isFinal(run.state)));
  const wanted = query.trim().toLowerCase();
  const shown =
    searching && wanted !== ''
      ? runs.filter(run => `${run.name} ${run.cluster} ${run.state} ${run.id}`.toLowerCase().includes(wanted))
      : runs;
  return (
    <Section
      title={trans.__('Runs')}
      tools={<IconButton icon={searchIcon} label={trans.__('Find a run')} onClick={() => setSearching(!searching)} />}
    >
      {searching && (
        <input
          type="search"
          className="jp-dtf-search jp-mod-styled"
          aria-label={trans.__('Find a run by name, cluster or state')}
          placeholder={trans.__('Name, cluster or state')}
          value={query}
          autoFocus
          onChange={event => setQuery(event.target.value)}
          onKeyDown={event => event.key === 'Escape' && setSearching(false)}
        />
      )}
      {props.ready && runs.length === 0 && (
        <p className="jp-dtf-faint">
          {trans.__('No run yet. In a notebook that is connected to a cluster: cluster.fit(model, x, y)')}
        </p>
      )}
      {runs.length > 0 && shown.length === 0 && <p className="jp-dtf-faint">{trans.__('No run matches.')}</p>}
      <ul className="jp-dtf-list">
        {shown.map(run => (
          <RunRow
            key={run.id}
            run={run}
            now={now}
            trans={trans}
            onOpen={props.onOpen}
            onStop={props.onStop}
            onMenu={props.onMenu}
          />
        ))}
      </ul>
    </Section>
  );
}
