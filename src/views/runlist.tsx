import type { TranslationBundle } from '@jupyterlab/translation';
import { runIcon, searchIcon, stopIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { RunInfo } from '../api/schema';
import { formatDuration, formatPercent } from '../model/format';
import { differences } from '../model/runnames';
import {
  canResume,
  canStop,
  fractionDone,
  isFinal,
  objectiveText,
  reason,
  secondsTaken,
  warningsOf
} from '../model/runstate';
import { IconButton, Section, StateMark } from './controls';
import { useMinute, useNow } from './hooks';
import { LongList } from './longlist';
import { folded, isSearch, RunItem, SearchRow } from './search/searchrow';
import { Sparkline } from './sparkline';
import { momentText, stateText, whenText } from './localizedtext';

/** The panel's actions on a run. */
export interface RunActions {
  onOpen: (id: string) => void;
  onStop: (id: string) => void;
  onContinue: (id: string) => void;
  onResume: (id: string, at: HTMLElement) => void;
  onMenu: (id: string, at: HTMLElement) => void;
}

export function RunRow(props: {
  run: RunInfo;
  /** The differences between this run and the others. */
  facts: readonly string[];
  now: number;
  trans: TranslationBundle;
  actions: RunActions;
}): React.ReactElement {
  const { run, trans, actions } = props;
  const value = objectiveText(run);
  const [warning] = warningsOf(run);
  const why = reason(run);
  const unhappy = run.state === 'failed' || run.state === 'lost';
  return (
    <div
      role="listitem"
      className="jp-dtf-row jp-dtf-run"
      data-run={run.id}
      onContextMenu={event => {
        event.preventDefault();
        event.stopPropagation();
        actions.onMenu(run.id, event.currentTarget);
      }}
    >
      <button
        type="button"
        className="jp-dtf-run-open"
        aria-label={trans.__('Open the dashboard of %1, %2', run.name, stateText(run.state, trans))}
        onClick={() => actions.onOpen(run.id)}
      >
        <span className="jp-dtf-row-head">
          <StateMark state={run.state} trans={trans} />
          <span className="jp-dtf-name" title={run.name}>
            {run.name}
          </span>
          <time
            className="jp-dtf-when jp-dtf-faint"
            dateTime={new Date(1000 * run.created).toISOString()}
            title={momentText(run.created)}
          >
            {whenText(run.created, props.now, trans)}
          </time>
        </span>
        <span className="jp-dtf-row-detail">
          <span className="jp-dtf-faint jp-dtf-run-facts" title={unhappy || why === '' ? props.facts.join(' · ') : why}>
            {!isFinal(run.state) && <Progress run={run} facts={props.facts} trans={trans} />}
            {isFinal(run.state) &&
              [...props.facts, formatDuration(secondsTaken(run, 0))].filter(part => part !== '').join(' · ')}
            {!unhappy && why !== '' && ` · ${why}`}
          </span>
          {value && (
            <>
              <Sparkline values={run.sparkline} label={trans.__('Trend of %1', value[0])} />
              <span className="jp-dtf-objective jp-dtf-number" title={value[0]}>
                <span className="jp-dtf-faint">{value[0]}</span> {value[1]}
              </span>
            </>
          )}
        </span>
        {unhappy && why !== '' && (
          <span className="jp-dtf-row-reason jp-dtf-problem" title={why}>
            {why}
          </span>
        )}
        {warning !== undefined && (
          <span className="jp-dtf-row-reason jp-dtf-note" title={warningsOf(run).join('\n')}>
            {warning}
          </span>
        )}
      </button>
      {run.state === 'paused' && (
        <IconButton
          icon={runIcon}
          label={trans.__('Continue %1', run.name)}
          onClick={() => actions.onContinue(run.id)}
        />
      )}
      {canStop(run.state) && (
        <IconButton icon={stopIcon} label={trans.__('Stop %1', run.name)} onClick={() => actions.onStop(run.id)} />
      )}
      {canResume(run) && (
        <IconButton
          icon={runIcon}
          label={trans.__('Resume %1 on…', run.name)}
          menu
          onClick={event => actions.onResume(run.id, event.currentTarget)}
        />
      )}
    </div>
  );
}

/** The progress of an active run, updated every second. */
function Progress(props: { run: RunInfo; facts: readonly string[]; trans: TranslationBundle }): React.ReactElement {
  const { run, trans } = props;
  const now = useNow(true);
  const fraction = fractionDone(run);
  const parts = [
    run.state === 'running' ? '' : stateText(run.state, trans),
    fraction === null ? '' : formatPercent(fraction),
    ...props.facts,
    formatDuration(secondsTaken(run, now))
  ];
  return <>{parts.filter(part => part !== '').join(' · ')}</>;
}

/** The differences between runs; the same object until its contents change, since rows are re-rendered with it. */
function useDifferences(runs: readonly RunInfo[]): ReadonlyMap<string, readonly string[]> {
  const found = React.useMemo(() => differences(runs), [runs]);
  const [kept, setKept] = React.useState(found);
  if (kept !== found && !isSame(kept, found)) {
    setKept(found);
  }
  return kept;
}

function isSame(one: ReadonlyMap<string, readonly string[]>, other: ReadonlyMap<string, readonly string[]>): boolean {
  return one.size === other.size && [...one].every(([id, facts]) => facts.join('\n') === other.get(id)?.join('\n'));
}

/** The runs section of the panel. */
export function Runs(
  props: {
    runs: readonly RunInfo[];
    ready: boolean;
    trans: TranslationBundle;
    onOpenSearch?: (id: string) => void;
  } & RunActions
): React.ReactElement {
  const { runs, trans } = props;
  const [searching, setSearching] = React.useState(false);
  const [query, setQuery] = React.useState('');
  const now = useMinute();
  const { onOpen, onStop, onContinue, onResume, onMenu } = props;
  const actions = React.useRef<RunActions>({ onOpen, onStop, onContinue, onResume, onMenu });
  React.useEffect(() => {
    actions.current = { onOpen, onStop, onContinue, onResume, onMenu };
  });
  // Stable callbacks, so that rows are not re-rendered because of new functions.
  const [steady] = React.useState<RunActions>(() => ({
    onOpen: id => actions.current.onOpen(id),
    onStop: id => actions.current.onStop(id),
    onContinue: id => actions.current.onContinue(id),
    onResume: (id, at) => actions.current.onResume(id, at),
    onMenu: (id, at) => actions.current.onMenu(id, at)
  }));
  const facts = useDifferences(runs);
  const [open, setOpen] = React.useState<ReadonlySet<string>>(new Set());
  const stamp = React.useMemo(() => ({ now, facts, open }), [now, facts, open]);
  const fold = (id: string) => setOpen(new Set(open.has(id) ? [...open].filter(other => other !== id) : [...open, id]));
  const wanted = query.trim().toLowerCase();
  const shown =
    searching && wanted !== ''
      ? runs.filter(run => `${run.name} ${run.cluster} ${run.state} ${run.id}`.toLowerCase().includes(wanted))
      : runs;
  const items = React.useMemo(() => folded(shown, open), [shown, open]);
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
          {trans.__('No runs yet. In a notebook that is connected to a cluster: cluster.fit(model, x, y)')}
        </p>
      )}
      {runs.length > 0 && shown.length === 0 && <p className="jp-dtf-faint">{trans.__('No runs match.')}</p>}
      <LongList
        className="jp-dtf-list"
        items={items}
        rowHeight={46}
        stamp={stamp}
        row={(item: RunItem) =>
          isSearch(item) ? (
            <SearchRow
              key={item.id}
              search={item}
              open={open.has(item.id)}
              now={now}
              trans={trans}
              onFold={fold}
              onOpen={props.onOpenSearch ?? fold}
            />
          ) : (
            <RunRow
              key={item.id}
              run={item}
              facts={facts.get(item.id) ?? []}
              now={now}
              trans={trans}
              actions={steady}
            />
          )
        }
      />
    </Section>
  );
}
