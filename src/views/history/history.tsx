import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { RunInfo, RunsDashboard } from '../../api/schema';
import type { PlotChoices } from '../../model/plotchoices';
import type { PreferenceValues } from '../../model/preferences';
import type { RunModel } from '../../model/run';
import { groupedRuns, groupLines } from '../../model/rungroups';
import { chosenRuns, columnsOf, FilterError, FIRST_COLUMNS, sortedRuns } from '../../model/runtable';
import { PALETTE } from '../../plots/palette';
import { SmallButton } from '../controls';
import { useMinute } from '../hooks';
import { Tabs } from '../tabs';
import { ComparedCode } from './comparedcode';
import { ComparedDesigns } from './compareddesigns';
import { Comparison } from './runcomparison';
import { Overlay } from './overlaidplots';
import { columnTitle, RunsTable, Sorting } from './runstable';

/** Maximum number of compared runs: more lines in a plot would be unreadable. */
const MOST_COMPARED = 24;

/** Columns that differ for every run. */
const OWN: ReadonlySet<string> = new Set(['id', 'name', 'message', 'seconds']);

/** The user's stored choices for the table of runs and its comparison. */
export interface HistoryChoices {
  columns: string[];
  sorting: Sorting;
  /** The column by which runs are grouped; empty: not grouped. */
  group: string;
}

export const FIRST_CHOICES: HistoryChoices = {
  columns: [...FIRST_COLUMNS],
  sorting: { column: 'created', descending: true },
  group: ''
};

export interface HistoryActions {
  onOpen: (id: string) => void;
  onMenu: (id: string, at: HTMLElement) => void;
  onArchive: (ids: readonly string[]) => void;
  onDelete: (ids: readonly string[]) => void;
  onChoices: (choices: HistoryChoices) => void;
  onCopy: (text: string) => void;
  /** Save a comparison as a file. */
  onSaveDashboard: (dashboard: RunsDashboard) => void;
}

/** All runs, past and present: filtered, sorted, and the ticked ones compared. */
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
  const { columns, sorting, group } = choices;
  const now = useMinute();
  const [query, setQuery] = React.useState('');
  const [archived, setArchived] = React.useState(false);
  const [ticked, setTicked] = React.useState<readonly string[]>([]);
  const [tab, setTab] = React.useState('plots');
  const [open, setOpen] = React.useState<ReadonlySet<string>>(new Set());
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
  const groups = React.useMemo(() => (group === '' ? null : groupedRuns(shown, group)), [shown, group]);
  const lines = React.useMemo(() => (groups ? groupLines(groups, open) : shown), [groups, open, shown]);
  const all = React.useMemo(() => columnsOf(runs), [runs]);
  // Hidden runs are neither compared nor acted on, but are still ticked when they are shown again.
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
  /** Apply an action to all runs that are ticked and shown, then untick them. */
  const act = (what: (ids: readonly string[]) => void) => {
    const acted = tickedShown.map(run => run.id);
    what(acted);
    setTicked(before => before.filter(id => !acted.includes(id)));
  };
  const latest = React.useRef({ onOpen, onMenu, onChoices, choices });
  React.useEffect(() => {
    latest.current = { onOpen, onMenu, onChoices, choices };
  });
  // Stable callbacks, so that rows are not re-rendered because of new functions.
  const [actions] = React.useState(() => ({
    onOpen: (id: string) => latest.current.onOpen(id),
    onMenu: (id: string, at: HTMLElement) => latest.current.onMenu(id, at),
    onSelect: (id: string, is: boolean) =>
      setTicked(before => [...before.filter(other => other !== id), ...(is ? [id] : [])]),
    onSort: (column: string) => {
      const { choices: known, onChoices: keep } = latest.current;
      const descending = known.sorting.column === column ? !known.sorting.descending : false;
      keep({ ...known, sorting: { column, descending } });
    },
    onFold: (key: string) =>
      setOpen(before => new Set(before.has(key) ? [...before].filter(other => other !== key) : [...before, key]))
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
          {problem !== '' ? trans.__('Invalid query: %1', problem) : trans.__('%1 of %2', found.length, there.length)}
        </span>
        <GroupBy
          all={all}
          group={group}
          trans={trans}
          onChange={chosen => {
            setOpen(new Set());
            onChoices({ ...choices, group: chosen });
          }}
        />
        {groups && (
          <SmallButton onClick={() => setOpen(open.size > 0 ? new Set() : new Set(groups.map(({ key }) => key)))}>
            {open.size > 0 ? trans.__('Collapse all') : trans.__('Expand all')}
          </SmallButton>
        )}
        <Columns
          all={all}
          chosen={columns}
          trans={trans}
          onChange={changed => onChoices({ ...choices, columns: changed })}
        />
        <label>
          <input type="checkbox" checked={archived} onChange={event => setArchived(event.target.checked)} />
          {trans.__('Include archived')}
        </label>
        <span className="jp-dtf-spacer" />
        {tickedShown.length > 0 && (
          <>
            <span className="jp-dtf-faint">{trans._n('%1 selected', '%1 selected', tickedShown.length)}</span>
            <SmallButton onClick={() => setTicked([])}>{trans.__('Deselect all')}</SmallButton>
            <SmallButton onClick={() => act(props.onArchive)}>{trans.__('Archive')}</SmallButton>
            <SmallButton onClick={() => act(props.onDelete)}>{trans.__('Delete')}</SmallButton>
          </>
        )}
      </div>
      {props.ready && runs.length === 0 && (
        <p className="jp-dtf-faint jp-dtf-none">
          {trans.__('No runs yet. In a notebook that is connected to a cluster: cluster.fit(model, x, y)')}
        </p>
      )}
      <RunsTable
        lines={lines}
        group={group}
        open={open}
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
  onCopy: (text: string) => void;
  onSaveDashboard: (dashboard: RunsDashboard) => void;
}): React.ReactElement {
  const { ids: joined, runs, trans, model, title, colours, now, onCopy } = props;
  const ids = React.useMemo(() => joined.split('\n'), [joined]);
  const said = ids.map(title).join('\n');
  const titles = React.useMemo(() => said.split('\n'), [said]);
  const found = React.useRef(model);
  React.useEffect(() => {
    found.current = model;
  });
  const [models, setModels] = React.useState<readonly RunModel[]>([]);
  React.useEffect(() => {
    setModels(ids.flatMap(id => found.current(id) ?? []));
  }, [ids]);
  const heads = { ids, titles, colours, now, trans };
  // Until the effect has run, these are the previous models.
  const isReady = models.length === ids.length && models.every((one, index) => one.id === ids[index]);
  return (
    <Tabs
      label={trans.__('Comparison')}
      active={props.tab}
      onActive={props.onTab}
      tabs={[
        {
          id: 'plots',
          title: trans.__('Plots'),
          content: isReady ? (
            <Overlay
              models={models}
              titles={titles}
              preferences={props.preferences}
              choices={props.plots}
              themeChanged={props.themeChanged}
              onSave={props.onSaveDashboard}
              trans={trans}
            />
          ) : null
        },
        {
          id: 'parameters',
          title: trans.__('Parameters'),
          content: <Comparison runs={runs} {...heads} />
        },
        {
          id: 'code',
          title: trans.__('Code'),
          content: isReady ? <ComparedCode models={models} runs={runs} onCopy={onCopy} {...heads} /> : null
        },
        {
          id: 'designs',
          title: trans.__('Designs'),
          content: isReady ? <ComparedDesigns models={models} onCopy={onCopy} {...heads} /> : null
        }
      ]}
    />
  );
}

/** Choose the column to group runs by, among those whose values several runs may share. */
function GroupBy(props: {
  all: readonly string[];
  group: string;
  trans: TranslationBundle;
  onChange: (group: string) => void;
}): React.ReactElement {
  const { all, group, trans, onChange } = props;
  const columns = [...new Set([...all, ...(group === '' ? [] : [group])])].filter(column => !OWN.has(column));
  return (
    <label>
      {trans.__('Group by')}
      <select value={group} onChange={event => onChange(event.target.value)}>
        <option value="">{trans.__('nothing')}</option>
        {columns.map(column => (
          <option key={column} value={column}>
            {column === 'created' ? trans.__('day') : column === 'tags' ? trans.__('tag') : columnTitle(column)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Choose the visible columns. */
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
