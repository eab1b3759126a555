import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, caretUpIcon, ellipsesIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { RunInfo } from '../../api/schema';
import { formatDuration, formatNumber } from '../../model/format';
import { Cell, rowOf } from '../../model/runtable';
import { IconButton, StateMark } from '../basics';
import { LongList } from '../longlist';
import { momentText, whenText } from '../words';

/** What is sorted by, and which way. */
export interface Sorting {
  column: string;
  descending: boolean;
}

export interface TableActions {
  onOpen: (id: string) => void;
  onMenu: (id: string, at: HTMLElement) => void;
  onSelect: (id: string, selected: boolean) => void;
  onSort: (column: string) => void;
}

/** A column's name without the group that it is in, where that is said by the heading's description. */
export function columnTitle(column: string): string {
  return column.replace(/^(parameters|versions)\./, '').replace(/^(last|best)\./, '$1 ');
}

/** A value as a person reads it. */
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

/** Runs in rows, of which those far from the view are not in the page. */
export function RunsTable(props: {
  runs: readonly RunInfo[];
  columns: readonly string[];
  sorting: Sorting;
  /** The colours of those that are compared, by their ids. */
  selected: ReadonlyMap<string, string>;
  now: number;
  trans: TranslationBundle;
  actions: TableActions;
}): React.ReactElement {
  const { runs, columns, sorting, selected, now, trans, actions } = props;
  const widths = `24px 22px minmax(140px, 2fr) repeat(${columns.length}, minmax(70px, 1fr)) 28px`;
  const stamp = React.useMemo(() => ({ columns, selected, now }), [columns, selected, now]);
  return (
    <div className="jp-dtf-history-table" style={{ '--jp-dtf-history-columns': widths } as React.CSSProperties}>
      <div className="jp-dtf-history-row jp-dtf-history-head" role="group" aria-label={trans.__('Sort by')}>
        <span />
        <span />
        {['name', ...columns].map(column => (
          <Heading key={column} column={column} sorting={sorting} trans={trans} onSort={actions.onSort} />
        ))}
        <span />
      </div>
      <LongList
        className="jp-dtf-history-list"
        items={runs}
        rowHeight={28}
        stamp={stamp}
        row={run => (
          <Row
            key={run.id}
            run={run}
            columns={columns}
            colour={selected.get(run.id)}
            now={now}
            trans={trans}
            actions={actions}
          />
        )}
      />
    </div>
  );
}

function Heading(props: {
  column: string;
  sorting: Sorting;
  trans: TranslationBundle;
  onSort: (column: string) => void;
}): React.ReactElement {
  const { column, sorting, trans } = props;
  const sorted = sorting.column === column;
  const Caret = sorting.descending ? caretDownIcon : caretUpIcon;
  return (
    <button
      type="button"
      className="jp-dtf-link jp-dtf-history-heading"
      title={trans.__('Sort by %1', column)}
      aria-pressed={sorted}
      onClick={() => props.onSort(column)}
    >
      {columnTitle(column)}
      {sorted && <Caret.react tag="span" className="jp-dtf-icon" />}
    </button>
  );
}

function Row(props: {
  run: RunInfo;
  columns: readonly string[];
  colour: string | undefined;
  now: number;
  trans: TranslationBundle;
  actions: TableActions;
}): React.ReactElement {
  const { run, columns, colour, now, trans, actions } = props;
  const row = rowOf(run);
  return (
    <div
      role="listitem"
      className="jp-dtf-history-row"
      data-run={run.id}
      data-archived={run.marks.archived || undefined}
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
        label={trans.__('More on %1', run.name)}
        menu
        onClick={event => actions.onMenu(run.id, event.currentTarget)}
      />
    </div>
  );
}
