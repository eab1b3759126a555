import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { RunInfo } from '../../api/schema';
import type { PlotChoices } from '../../model/choices';
import type { PreferenceValues } from '../../model/preferences';
import type { RunModel } from '../../model/run';
import { chosenRuns, columnsOf, FilterError, FIRST_COLUMNS, sortedRuns } from '../../model/runtable';
import { PALETTE } from '../../plots/palette';
import { SmallButton } from '../basics';
import { useMinute } from '../hooks';
import { Tabs } from '../tabs';
import { Comparison } from './runcomparison';
import { Overlay } from './overlay';
import { columnTitle, RunsTable, Sorting } from './runstable';

/** So many runs are compared: more lines in a plot tell nobody anything. */
const MOST_COMPARED = 24;

/** What a person chose to see of the runs, as it is kept. */
export interface HistoryChoices {
  columns: string[];
  sorting: Sorting;
}

export const FIRST_CHOICES: HistoryChoices = {
  columns: [...FIRST_COLUMNS],
  sorting: { column: 'created', descending: true }
};

export interface HistoryActions {
  onOpen: (id: string) => void;
  onMenu: (id: string, at: HTMLElement) => void;
  onArchive: (ids: readonly string[]) => void;
  onDelete: (ids: readonly string[]) => void;
  onChoices: (choices: HistoryChoices) => void;
}

/** All runs of the past and the present: found, sorted, and those that are ticked compared. */
export function History(
  props: {
    runs: readonly RunInfo[];
    ready: boolean;
    choices: HistoryChoices;
    model: (id: string) => RunModel | undefined;
    title: (id: string) => string;
    preferences: Readonly<PreferenceValues>;
    plots: PlotChoices;
    themeChanged: ISignal<unknown, unknown> | null;
    trans: TranslationBundle;
  } & HistoryActions
): React.ReactElement {
  const { runs, choices, trans, onOpen, onMenu, onChoices } = props;
  const { columns, sorting } = choices;
  const now = useMinute();
  const [query, setQuery] = React.useState('');
  const [archived, setArchived] = React.useState(false);
  const [ticked, setTicked] = React.useState<readonly string[]>([]);
  const [tab, setTab] = React.useState('plots');
  const there = React.useMemo(() => runs.filter(run => archived || !run.marks.archived), [runs, archived]);
  const { found, problem } = React.useMemo(() => {
    try {
      return { found: chosenRuns(there, query), problem: '' };
    } catch (error) {
      if (error instanceof FilterError) {
        return { found: there, problem: error.message };
      }
      throw error;
    }
  }, [there, query]);
  const shown = React.useMemo(() => sortedRuns(found, sorting.column, sorting.descending), [found, sorting]);
  // What is hidden is neither compared nor acted on, and is ticked still when it is shown again.
  const tickedShown = React.useMemo(() => ticked.flatMap(id => found.filter(run => run.id === id)), [ticked, found]);
  const compared = React.useMemo(() => tickedShown.slice(0, MOST_COMPARED), [tickedShown]);
  const ids = compared.map(run => run.id).join('\n');
  const selected = React.useMemo(
    () =>
      new Map(
        ids === '' ? [] : ids.split('\n').map((id, index): [string, string] => [id, PALETTE[index % PALETTE.length]!])
      ),
    [ids]
  );
  /** Do it with all that are ticked and shown; then none of them is ticked any more. */
  const act = (what: (ids: readonly string[]) => void) => {
    const acted = tickedShown.map(run => run.id);
    what(acted);
    setTicked(before => before.filter(id => !acted.includes(id)));
  };
  const latest = React.useRef({ onOpen, onMenu, onChoices, choices });
  React.useEffect(() => {
    latest.current = { onOpen, onMenu, onChoices, choices };
  });
  // Rows are not made again because somebody made new functions.
  const [actions] = React.useState(() => ({
    onOpen: (id: string) => latest.current.onOpen(id),
    onMenu: (id: string, at: HTMLElement) => latest.current.onMenu(id, at),
    onSelect: (id: string, is: boolean) =>
      setTicked(before => [...before.filter(other => other !== id), ...(is ? [id] : [])]),
    onSort: (column: string) => {
      const { choices: known, onChoices: keep } = latest.current;
      const descending = known.sorting.column === column ? !known.sorting.descending : false;
      keep({ ...known, sorting: { column, descending } });
    }
  }));
  return (
    <div className="jp-dtf-history">
      <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Runs')}>
        <input
          type="search"
          className="jp-dtf-search jp-dtf-history-search jp-mod-styled"
          aria-label={trans.__('Find runs by words or conditions')}
          placeholder={trans.__('Words, or strategy = ps and val_loss < 0.4')}
          value={query}
          onChange={event => setQuery(event.target.value)}
          onKeyDown={event => event.key === 'Escape' && setQuery('')}
        />
        <span role="status" className="jp-dtf-number jp-dtf-faint">
          {problem !== '' ? trans.__('Not understood: %1', problem) : trans.__('%1 of %2', found.length, there.length)}
        </span>
        <Columns
          all={columnsOf(runs)}
          chosen={columns}
          trans={trans}
          onChange={changed => onChoices({ ...choices, columns: changed })}
        />
        <label>
          <input type="checkbox" checked={archived} onChange={event => setArchived(event.target.checked)} />
          {trans.__('Archived as well')}
        </label>
        <span className="jp-dtf-spacer" />
        {tickedShown.length > 0 && (
          <>
            <span className="jp-dtf-faint">{trans._n('%1 ticked', '%1 ticked', tickedShown.length)}</span>
            <SmallButton onClick={() => setTicked([])}>{trans.__('Untick')}</SmallButton>
            <SmallButton onClick={() => act(props.onArchive)}>{trans.__('Archive')}</SmallButton>
            <SmallButton onClick={() => act(props.onDelete)}>{trans.__('Delete')}</SmallButton>
          </>
        )}
      </div>
      {props.ready && runs.length === 0 && (
        <p className="jp-dtf-faint jp-dtf-none">
          {trans.__('No run yet. In a notebook that is connected to a cluster: cluster.fit(model, x, y)')}
        </p>
      )}
      <RunsTable
        runs={shown}
        columns={columns}
        sorting={sorting}
        selected={selected}
        now={now}
        trans={trans}
        actions={actions}
      />
      {compared.length > 1 && (
        <div className="jp-dtf-history-compared" role="region" aria-label={trans.__('Comparison')}>
          <Compared {...props} ids={ids} runs={compared} colours={selected} now={now} tab={tab} onTab={setTab} />
        </div>
      )}
    </div>
  );
}

function Compared(props: {
  ids: string;
  runs: readonly RunInfo[];
  colours: ReadonlyMap<string, string>;
  now: number;
  tab: string;
  onTab: (tab: string) => void;
  model: (id: string) => RunModel | undefined;
  title: (id: string) => string;
  preferences: Readonly<PreferenceValues>;
  plots: PlotChoices;
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { ids, runs, trans, model, title } = props;
  const said = ids.split('\n').map(title).join('\n');
  const titles = React.useMemo(() => said.split('\n'), [said]);
  const found = React.useRef(model);
  React.useEffect(() => {
    found.current = model;
  });
  const [models, setModels] = React.useState<readonly RunModel[]>([]);
  React.useEffect(() => {
    setModels(ids.split('\n').flatMap(id => found.current(id) ?? []));
  }, [ids]);
  return (
    <Tabs
      label={trans.__('Comparison')}
      active={props.tab}
      onActive={props.onTab}
      tabs={[
        {
          id: 'plots',
          title: trans.__('Plots'),
          content:
            models.length === titles.length ? (
              <Overlay
                models={models}
                titles={titles}
                preferences={props.preferences}
                choices={props.plots}
                themeChanged={props.themeChanged}
                trans={trans}
              />
            ) : null
        },
        {
          id: 'parameters',
          title: trans.__('Parameters'),
          content: <Comparison runs={runs} titles={titles} colours={props.colours} now={props.now} trans={trans} />
        }
      ]}
    />
  );
}

/** Which columns there are to see. */
function Columns(props: {
  all: readonly string[];
  chosen: readonly string[];
  trans: TranslationBundle;
  onChange: (columns: string[]) => void;
}): React.ReactElement {
  const { all, chosen, trans } = props;
  const columns = [...new Set([...all, ...chosen])].filter(column => column !== 'name');
  return (
    <details className="jp-dtf-history-columns">
      <summary>{trans.__('Columns')}</summary>
      <div role="group" aria-label={trans.__('Columns')}>
        {columns.map(column => (
          <label key={column} title={column}>
            <input
              type="checkbox"
              checked={chosen.includes(column)}
              onChange={event =>
                props.onChange(event.target.checked ? [...chosen, column] : chosen.filter(other => other !== column))
              }
            />
            {columnTitle(column)}
          </label>
        ))}
      </div>
    </details>
  );
}
