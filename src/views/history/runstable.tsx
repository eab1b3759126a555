import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, caretRightIcon, caretUpIcon, ellipsesIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { RunInfo } from '../../api/schema';
import { formatDuration, formatNumber } from '../../model/format';
import { groupCell, GroupedRun, RunGroup } from '../../model/rungroups';
import { Cell, rowOf } from '../../model/runtable';
import { IconButton, StateMark } from '../controls';
import { LongList } from '../longlist';
import { momentText, whenText } from '../localizedtext';

/** The sort column and direction. */
export interface Sorting {
  column: string;
  descending: boolean;
}

export interface TableActions {
  onOpen: (id: string) => void;
  onMenu: (id: string, at: HTMLElement) => void;
  onSelect: (id: string, selected: boolean) => void;
  onSort: (column: string) => void;
  /** Called when a group is opened or folded. */
  onFold: (group: string) => void;
}

/** A column's name without its prefix, which the heading's description contains. */
export function columnTitle(column: string): string {
  return column.replace(/^(parameters|versions)\./, '').replace(/^(last|best)\./, '$1 ');
}

/** A value as text. */
export function cellText(column: string, value: Cell | undefined, now: number, trans: TranslationBundle): string {
  if (value === undefined) {
    return '';
  }
  if (typeof value === 'boolean') {
    return value ? trans.__('yes') : trans.__('no');
  }
  if (typeof value === 'string') {
    return column === 'commit' ? value.slice(0, 12) : value;
  }
  if (column === 'created') {
    return whenText(value, now, trans);
  }
  return column === 'seconds' ? formatDuration(value) : Number.isInteger(value) ? String(value) : formatNumber(value);
}

/** A row: a run, a group, or a run in a group. */
export type TableLine = RunInfo | RunGroup | GroupedRun;

/** A table of runs; rows far from the view are not rendered. */
export function RunsTable(props: {
  lines: readonly TableLine[];
  /** The column by which they are grouped; empty: not grouped. */
  group: string;
  /** The keys of the open groups. */
  open: ReadonlySet<string>;
  columns: readonly string[];
  sorting: Sorting;
  /** The colors of the compared runs, by id. */
  selected: ReadonlyMap<string, string>;
  now: number;
  trans: TranslationBundle;
  actions: TableActions;
}): React.ReactElement {
  const { lines, group, open, columns, sorting, selected, now, trans, actions } = props;
  const widths = `24px 22px minmax(140px, 2fr) repeat(${columns.length}, minmax(70px, 1fr)) 28px`;
  const stamp = React.useMemo(() => ({ columns, group, open, selected, now }), [columns, group, open, selected, now]);
  return (
    <div className="jp-dtf-history-table" style={{ '--jp-dtf-history-columns': widths } as React.CSSProperties}>
      <div className="jp-dtf-history-row jp-dtf-history-head" role="group" aria-label={trans.__('Sort by')}>
        <span />
        <span />
        {['name', ...columns].map(column => (
          <Heading
            key={column}
            column={column}
            isNumber={isNumeric(column, lines)}
            sorting={sorting}
            trans={trans}
            onSort={actions.onSort}
          />
        ))}
        <span />
      </div>
      <LongList
        className="jp-dtf-history-list"
        items={lines}
        rowHeight={28}
        stamp={stamp}
        row={line => {
          const common = { columns, now, trans, actions };
          if ('runs' in line) {
            return <GroupRow key={line.key} group={line} by={group} open={open.has(line.key)} {...common} />;
          }
          const { run, group: within } = 'run' in line ? line : { run: line, group: '' };
          return (
            <Row
              key={`${within}\n${run.id}`}
              run={run}
              grouped={group !== ''}
              colour={selected.get(run.id)}
              {...common}
            />
          );
        }}
      />
    </div>
  );
}

// Number of rows that are examined to determine a column's type.
const ASKED = 100;

/** Whether a column is numeric, with its heading aligned accordingly. */
function isNumeric(column: string, lines: readonly TableLine[]): boolean {
  for (const line of lines.slice(0, ASKED)) {
    const run = 'runs' in line ? line.runs[0] : 'run' in line ? line.run : line;
    const value = run && rowOf(run).get(column);
    if (value !== undefined) {
      return typeof value === 'number';
    }
  }
  return false;
}

function Heading(props: {
  column: string;
  isNumber: boolean;
  sorting: Sorting;
  trans: TranslationBundle;
  onSort: (column: string) => void;
}): React.ReactElement {
  const { column, isNumber, sorting, trans } = props;
  const sorted = sorting.column === column;
  const Caret = sorting.descending ? caretDownIcon : caretUpIcon;
  return (
    <button
      type="button"
      className="jp-dtf-link jp-dtf-history-heading"
      data-number={isNumber || undefined}
      title={trans.__('Sort by %1', column)}
      aria-pressed={sorted}
      onClick={() => props.onSort(column)}
    >
      {columnTitle(column)}
      {sorted && <Caret.react tag="span" className="jp-dtf-icon" />}
    </button>
  );
}

/** The number of runs in a group, their common values, and the best of them. */
function GroupRow(props: {
  group: RunGroup;
  by: string;
  open: boolean;
  columns: readonly string[];
  now: number;
  trans: TranslationBundle;
  actions: TableActions;
}): React.ReactElement {
  const { group, by, open, columns, now, trans, actions } = props;
  const { runs } = group;
  const Caret = open ? caretDownIcon : caretRightIcon;
  const cells = React.useMemo(() => columns.map(column => groupCell(runs, column)), [runs, columns]);
  const count = trans._n('%1 run', '%1 runs', runs.length);
  const name = groupTitle(by, group.value, now, trans);
  return (
    <div role="listitem" className="jp-dtf-history-row jp-dtf-history-group" data-group={group.key}>
      <button
        type="button"
        className="jp-dtf-link jp-dtf-history-group-name"
        aria-expanded={open}
        title={`${columnTitle(by)}: ${name}`}
        onClick={() => actions.onFold(group.key)}
      >
        <Caret.react tag="span" className="jp-dtf-icon" />
        <strong>{name}</strong> <span className="jp-dtf-faint">{count}</span>
      </button>
      {columns.map((column, index) => {
        const cell = cells[index];
        if (!cell || column === by) {
          return <span key={column} />;
        }
        const text = cellText(column, cell.value, now, trans);
        const isNumber = typeof cell.value === 'number';
        return (
          <span
            key={column}
            className={isNumber ? 'jp-dtf-number' : 'jp-dtf-history-text'}
            data-is={cell.is}
            title={groupCellTitle(cell.is, text, trans)}
          >
            {cell.is === 'best' && (
              <span role="img" aria-label={trans.__('best')}>
                ★{' '}
              </span>
            )}
            {text}
          </span>
        );
      })}
      <span />
    </div>
  );
}

function groupTitle(by: string, value: Cell | undefined, now: number, trans: TranslationBundle): string {
  if (value === undefined) {
    return trans.__('without %1', columnTitle(by));
  }
  if (by === 'created' && typeof value === 'number') {
    return new Date(1000 * value).toLocaleDateString([], {
      weekday: 'short',
      day: 'numeric',
      month: 'short',
      year: 'numeric'
    });
  }
  return cellText(by, value, now, trans);
}

function groupCellTitle(is: 'all' | 'best' | 'newest', text: string, trans: TranslationBundle): string {
  switch (is) {
    case 'best':
      return trans.__('%1, the best of these runs', text);
    case 'newest':
      return trans.__('the newest of these runs');
    case 'all':
      return trans.__('%1, the same in all these runs', text);
  }
}

function Row(props: {
  run: RunInfo;
  grouped: boolean;
  columns: readonly string[];
  colour: string | undefined;
  now: number;
  trans: TranslationBundle;
  actions: TableActions;
}): React.ReactElement {
  const { run, grouped, columns, colour, now, trans, actions } = props;
  const row = rowOf(run);
  return (
    <div
      role="listitem"
      className="jp-dtf-history-row"
      data-run={run.id}
      data-archived={run.marks.archived || undefined}
      data-grouped={grouped || undefined}
      onContextMenu={event => {
        event.preventDefault();
        event.stopPropagation();
        actions.onMenu(run.id, event.currentTarget);
      }}
    >
      <input
        type="checkbox"
        checked={colour !== undefined}
        style={colour === undefined ? undefined : { accentColor: colour }}
        aria-label={trans.__('Compare %1', run.name)}
        onChange={event => actions.onSelect(run.id, event.target.checked)}
      />
      <StateMark state={run.state} trans={trans} />
      <button
        type="button"
        className="jp-dtf-link jp-dtf-history-name"
        title={[run.name, run.message, run.marks.note].filter(text => text !== '').join('\n')}
        onClick={() => actions.onOpen(run.id)}
      >
        {run.name}
      </button>
      {columns.map(column => {
        const value = row.get(column);
        const text = cellText(column, value, now, trans);
        return (
          <span
            key={column}
            className={typeof value === 'number' ? 'jp-dtf-number' : 'jp-dtf-history-text'}
            title={column === 'created' ? momentText(run.created) : text}
          >
            {text}
          </span>
        );
      })}
      <IconButton
        icon={ellipsesIcon}
        label={trans.__('Actions for %1', run.name)}
        menu
        onClick={event => actions.onMenu(run.id, event.currentTarget)}
      />
    </div>
  );
}
