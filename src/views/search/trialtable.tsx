import type { TranslationBundle } from '@jupyterlab/translation';
import { stopIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { runIcon } from '../../icons';
import { formatDuration } from '../../model/format';
import { Column, Search, sorted, Trial } from '../../model/search';
import { canStop, secondsTaken } from '../../model/runstate';
import { IconButton } from '../controls';
import { useNow } from '../hooks';
import { LongList } from '../longlist';
import { Mark } from '../stateicons';
import { Sparkline } from '../sparkline';
import { markOf, SearchViewProps, shown, trialStateText } from './searchviewshared';

const ROW_PX = 26;
const LEAST_PX = 64;
const GAP_PX = 10;
const FLEXIBLE = `minmax(${LEAST_PX}px, 1fr)`;

interface Head {
  key: string;
  title: string;
  /** Its width in a CSS grid. */
  width: string;
  /** The column that it is sorted by; null if it cannot be sorted. */
  column: Column | null;
  numeric?: boolean;
}

function headsOf(search: Search, trans: TranslationBundle): Head[] {
  const objectives = search.objectives.map(({ metric }, index) => ({
    key: `objective ${metric}`,
    title: metric,
    width: FLEXIBLE,
    column: { of: 'objective', index } as const,
    numeric: true
  }));
  return [
    { key: 'number', title: '#', width: '48px', column: { of: 'number' }, numeric: true },
    { key: 'state', title: trans.__('state'), width: '88px', column: { of: 'state' } },
    ...(objectives.length > 0
      ? objectives
      : [
          {
            key: 'value',
            title: trans.__('metric'),
            width: FLEXIBLE,
            column: { of: 'objective', index: 0 } as const,
            numeric: true
          }
        ]),
    { key: 'course', title: trans.__('trend'), width: '72px', column: null },
    ...search.parameters.map(name => ({
      key: `parameter ${name}`,
      title: name,
      width: FLEXIBLE,
      column: { of: 'parameter', name } as const,
      numeric: true
    })),
    { key: 'duration', title: trans.__('time'), width: '62px', column: { of: 'duration' }, numeric: true },
    { key: 'places', title: trans.__('host'), width: FLEXIBLE, column: { of: 'places' } },
    { key: 'actions', title: '', width: '52px', column: null }
  ];
}

/** The trials within the brushes, one row each, sorted by any column. */
export function TrialTable(
  props: SearchViewProps & { onOpen: (run: string) => void; onStop: (run: string) => void }
): React.ReactElement {
  const { search, chosen, looked, trans } = props;
  const heads = React.useMemo(() => headsOf(search, trans), [search, trans]);
  const [by, setBy] = React.useState<{ key: string; descending: boolean }>({ key: 'number', descending: true });
  const now = useNow(search.isRunning);
  const column = heads.find(head => head.key === by.key)?.column ?? { of: 'number' as const };
  // eslint-disable-next-line react-hooks/exhaustive-deps -- a column is a new object each time; its key identifies it
  const rows = React.useMemo(() => sorted(chosen, column, by.descending), [chosen, by.key, by.descending]);
  const { onLook, onOpen, onStop } = props;
  const actions = React.useRef({ onLook, onOpen, onStop });
  React.useEffect(() => {
    actions.current = { onLook, onOpen, onStop };
  });
  const best = search.best;
  const second = search.isRunning ? Math.floor(now) : 0;
  const stamp = React.useMemo(() => ({ second, best, looked, heads }), [second, best, looked, heads]);
  // Every row is a grid of its own: its contents must not make it wider than the others.
  const least = heads.reduce((sum, { width }) => sum + GAP_PX + (width === FLEXIBLE ? LEAST_PX : parseInt(width)), 24);
  const columns = {
    '--jp-dtf-trial-columns': heads.map(head => head.width).join(' '),
    minWidth: least
  } as React.CSSProperties;
  return (
    <div
      className="jp-dtf-trials"
      role="table"
      aria-label={trans.__('Trials of %1', search.name)}
      aria-rowcount={rows.length + 1}
      style={columns}
    >
      <div role="rowgroup" className="jp-dtf-trials-head">
        <div role="row" className="jp-dtf-trial-row">
          {heads.map(head => (
            <span
              key={head.key}
              role="columnheader"
              className={head.numeric ? 'jp-dtf-number' : ''}
              aria-sort={by.key === head.key ? (by.descending ? 'descending' : 'ascending') : undefined}
            >
              {head.column === null ? (
                head.title || <span className="jp-dtf-unseen">{trans.__('actions')}</span>
              ) : (
                <button
                  type="button"
                  className="jp-dtf-sort"
                  title={trans.__('Sort by %1', head.title)}
                  onClick={() => setBy({ key: head.key, descending: by.key === head.key && !by.descending })}
                >
                  {head.title}
                  <span aria-hidden="true">{by.key === head.key ? (by.descending ? ' ▾' : ' ▴') : ''}</span>
                </button>
              )}
            </span>
          ))}
        </div>
      </div>
      <LongList
        className="jp-dtf-trials-rows"
        role="rowgroup"
        items={rows}
        rowHeight={ROW_PX}
        stamp={stamp}
        row={trial => (
          <TrialRow
            key={trial.run.id}
            trial={trial}
            search={search}
            now={now}
            isBest={best.includes(trial)}
            isLooked={looked?.run.id === trial.run.id}
            trans={trans}
            actions={actions}
          />
        )}
      />
    </div>
  );
}

function TrialRow(props: {
  trial: Trial;
  search: Search;
  now: number;
  isBest: boolean;
  isLooked: boolean;
  trans: TranslationBundle;
  actions: React.RefObject<{
    onLook: (trial: Trial) => void;
    onOpen: (run: string) => void;
    onStop: (run: string) => void;
  } | null>;
}): React.ReactElement {
  const { trial, search, isBest, isLooked, trans, actions } = props;
  const { run, state } = trial;
  const values = search.objectives.length > 0 ? trial.values : [trial.value];
  const word = trialStateText(state, trans);
  return (
    <div
      role="row"
      className={`jp-dtf-trial-row${isBest ? ' jp-mod-best' : ''}${isLooked ? ' jp-mod-looked' : ''}`}
      data-trial={trial.number}
      data-state={state}
      onClick={() => actions.current?.onLook(trial)}
    >
      <span role="cell" className="jp-dtf-number">
        <button
          type="button"
          className="jp-dtf-trial-number"
          aria-pressed={isLooked}
          aria-label={isBest ? trans.__('Trial %1, the best', trial.number) : trans.__('Trial %1', trial.number)}
        >
          {isBest && <span aria-hidden="true">★ </span>}
          {trial.number}
        </button>
      </span>
      <span role="cell" className="jp-dtf-trial-state" title={trial.error || word}>
        <Mark kind={markOf(state)} />
        {word}
      </span>
      {values.map((value, index) => (
        <span key={index} role="cell" className="jp-dtf-number jp-dtf-trial-value">
          {value === null ? '–' : shown(value)}
        </span>
      ))}
      <span role="cell">
        {run.sparkline.length > 1 && (
          <Sparkline values={run.sparkline} label={trans.__('Trend of trial %1', trial.number)} />
        )}
      </span>
      {search.parameters.map(name => (
        <span key={name} role="cell" className="jp-dtf-number" title={shown(run.parameters[name])}>
          {shown(run.parameters[name])}
        </span>
      ))}
      <span role="cell" className="jp-dtf-number">
        {run.started === null ? '–' : formatDuration(secondsTaken(run, props.now))}
      </span>
      <span role="cell" title={trial.places.join(', ')}>
        {trial.places.join(', ')}
      </span>
      <span role="cell" className="jp-dtf-trial-actions">
        {canStop(run.state) && (
          <IconButton
            icon={stopIcon}
            label={trans.__('Stop trial %1', trial.number)}
            onClick={event => {
              event.stopPropagation();
              actions.current?.onStop(run.id);
            }}
          />
        )}
        <IconButton
          icon={runIcon}
          label={trans.__('Open the dashboard of trial %1', trial.number)}
          onClick={event => {
            event.stopPropagation();
            actions.current?.onOpen(run.id);
          }}
        />
      </span>
    </div>
  );
}
