/** Runs as rows of a table: their columns, and filtering by the user's query. Pure; behaves like `jupyter dtf runs`. */

import type { RunInfo } from '../api/schema';
import { secondsTaken } from './runstate';

export type Cell = string | number | boolean;
export type Row = ReadonlyMap<string, Cell>;

/** Prefixes of column names. If a prefix is omitted, the first column that matches is used. */
const GROUPS = ['', 'parameters.', 'last.', 'best.', 'versions.'] as const;
const SEARCHED = ['id', 'name', 'tags', 'note', 'model', 'cluster', 'state'] as const;
const TERM = /^\s*([\w.:/ -]*?[\w.:/-])\s*(!=|<=|>=|=|<|>|~)\s*(.*?)\s*$/s;

/** The columns that are shown by default. */
export const FIRST_COLUMNS: readonly string[] = [
  'created',
  'seconds',
  'strategy',
  'tasks',
  'last.loss',
  'best.val_loss',
  'tags'
];

const rows = new WeakMap<RunInfo, Row>();

/** A run's values in the table; columns without a value are missing. */
export function rowOf(run: RunInfo): Row {
  let row = rows.get(run);
  if (!row) {
    row = made(run);
    rows.set(run, row);
  }
  return row;
}

function made(run: RunInfo): Row {
  const row = new Map<string, Cell>();
  const put = (name: string, value: unknown) => {
    if ((typeof value === 'number' && Number.isFinite(value)) || typeof value === 'boolean') {
      row.set(name, value);
    } else if (typeof value === 'string' && value !== '') {
      row.set(name, value);
    }
  };
  put('id', run.id);
  put('name', run.name);
  put('state', run.state);
  put('kind', run.kind);
  put('cluster', run.cluster);
  put('strategy', run.strategy);
  put('search', run.trial?.name);
  put(
    'tasks',
    Object.values(run.jobs).reduce((sum, count) => sum + count, 0)
  );
  put('created', run.created);
  if (run.started !== null && run.ended !== null) {
    put('seconds', secondsTaken(run, run.ended));
  }
  put('model', run.origin.model);
  put('weights', run.origin.weights);
  put('data', run.origin.data);
  put('tags', run.marks.tags.join(', '));
  put('note', run.marks.note);
  put('commit', run.origin.commit);
  put('message', run.message);
  for (const [name, value] of Object.entries(run.parameters)) {
    put(`parameters.${name}`, value);
  }
  for (const [name, value] of Object.entries(run.headline)) {
    put(`last.${name}`, value);
  }
  for (const [name, { value }] of Object.entries(run.best)) {
    put(`best.${name}`, value);
  }
  for (const [name, value] of Object.entries(run.origin.versions)) {
    put(`versions.${name}`, value);
  }
  return row;
}

const columns = new WeakMap<readonly RunInfo[], readonly string[]>();

/** All columns that any of the runs has, in order. */
export function columnsOf(runs: readonly RunInfo[]): readonly string[] {
  let found = columns.get(runs);
  if (!found) {
    const names = new Set<string>();
    for (const run of runs) {
      for (const name of rowOf(run).keys()) {
        names.add(name);
      }
    }
    found = [...names];
    columns.set(runs, found);
  }
  return found;
}

/** The column that the user means: `parameters.batch_size` for `batch_size`; undefined if there is none. */
export function columnCalled(name: string, columns: ReadonlySet<string>): string | undefined {
  return GROUPS.map(group => group + name).find(column => columns.has(column));
}

/** The query is invalid; the message explains why. */
export class FilterError extends Error {}

/**
 * The runs that match all terms: `COLUMN < VALUE`, with =, !=, <, <=, >, >= or ~ (contains), joined by `and`, or words
 * that occur in the name, a tag, the note and so on. Throws FilterError.
 */
export function chosenRuns(runs: readonly RunInfo[], text: string): readonly RunInfo[] {
  if (text.trim() === '' || runs.length === 0) {
    return runs;
  }
  const columns = new Set(columnsOf(runs));
  const terms = text
    .trim()
    .split(/\s+and\s+/)
    .map(part => termOf(part, columns));
  return runs.filter(run => terms.every(holds => holds(rowOf(run))));
}

function termOf(text: string, columns: ReadonlySet<string>): (row: Row) => boolean {
  const match = TERM.exec(text);
  if (!match) {
    const word = text.trim().toLowerCase();
    return row =>
      SEARCHED.some(name =>
        String(row.get(name) ?? '')
          .toLowerCase()
          .includes(word)
      );
  }
  const [, name, sign, said] = match as unknown as [string, string, string, string];
  const column = columnCalled(name, columns);
  if (column === undefined) {
    throw new FilterError(name);
  }
  const wanted = said.replace(/^["']+|["']+$/g, '').toLowerCase();
  if (sign === '~') {
    return row =>
      String(row.get(column) ?? '')
        .toLowerCase()
        .includes(wanted);
  }
  return row => {
    const value = row.get(column);
    if (value === undefined) {
      return sign === '!=';
    }
    if (typeof value === 'number') {
      const number = Number(wanted);
      if (wanted === '' || Number.isNaN(number)) {
        throw new FilterError(text.trim());
      }
      return compared(value - number, sign);
    }
    const own = String(value).toLowerCase();
    return compared(own < wanted ? -1 : own > wanted ? 1 : 0, sign);
  };
}

function compared(difference: number, sign: string): boolean {
  switch (sign) {
    case '=':
      return difference === 0;
    case '!=':
      return difference !== 0;
    case '<':
      return difference < 0;
    case '<=':
      return difference <= 0;
    case '>':
      return difference > 0;
    default:
      return difference >= 0;
  }
}

/** The runs sorted by a column; runs without a value come last in either direction. */
export function sortedRuns(runs: readonly RunInfo[], column: string, descending: boolean): RunInfo[] {
  const sign = descending ? -1 : 1;
  const having = runs.filter(run => rowOf(run).has(column));
  having.sort((a, b) => sign * order(rowOf(a).get(column)!, rowOf(b).get(column)!));
  return [...having, ...runs.filter(run => !rowOf(run).has(column))];
}

// Created once: `localeCompare` creates a collator for each comparison, which takes half a second for ten thousand
// runs.
const texts = new Intl.Collator('en', { numeric: true });

/** Numbers before strings; strings are compared naturally, by the numbers in them. */
export function order(a: Cell, b: Cell): number {
  if (typeof a === 'number' && typeof b === 'number') {
    return a - b;
  }
  if (typeof a === 'number' || typeof b === 'number') {
    return typeof a === 'number' ? -1 : 1;
  }
  return texts.compare(String(a), String(b));
}

/** A row of a comparison: a column, the runs' values, and whether they differ. */
export interface Compared {
  column: string;
  values: (Cell | undefined)[];
  differs: boolean;
}

// Columns that differ for every run and are not worth comparing.
const OWN = new Set(['id', 'name', 'created']);

/** Compare the values of these runs, in the order of the columns. */
export function compareRuns(runs: readonly RunInfo[]): Compared[] {
  return columnsOf(runs)
    .filter(column => !OWN.has(column))
    .map(column => {
      const values = runs.map(run => rowOf(run).get(column));
      return { column, values, differs: values.some(value => value !== values[0]) };
    });
}
