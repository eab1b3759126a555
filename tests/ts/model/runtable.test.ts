import { expect, it } from 'vitest';

import type { RunInfo } from '../../../src/api/schema';
import { chosenRuns, compareRuns, FilterError, rowOf, sortedRuns } from '../../../src/model/runtable';
import { runInfo } from '../fixtures';

function run(id: string, strategy: string, loss: number | null, batch: number, ...tags: string[]): RunInfo {
  const known = runInfo(id);
  return {
    ...known,
    strategy,
    state: 'succeeded',
    ended: 1003.5,
    parameters: { batch_size: batch, epochs: 3 },
    headline: loss === null ? {} : { val_loss: loss },
    best: loss === null ? {} : { val_loss: { value: loss / 2, step: 0, epoch: 2 } },
    marks: { ...known.marks, tags }
  };
}

const RUNS = [run('a', 'ps', 0.5, 64, 'good one'), run('b', 'allreduce', 0.25, 128), run('c', 'ps', null, 256)];
const ids = (runs: readonly RunInfo[]) => runs.map(({ id }) => id).join('');

// The same cases as in tests/python/commands/test_run_history.py.
it.each([
  ['', 'abc'],
  ['strategy = ps', 'ac'],
  ['strategy = PS and val_loss < 0.6', 'a'],
  ['best.val_loss <= 0.125', 'b'],
  ['batch_size >= 128 and strategy != ps', 'b'],
  ['val_loss != 0.5', 'bc'],
  ['tags ~ good', 'a'],
  ['good', 'a']
])('runs are filtered by %j', (wanted, found) => {
  expect(ids(chosenRuns(RUNS, wanted))).toBe(found);
});

it('reports what it does not understand', () => {
  expect(() => chosenRuns(RUNS, 'no_such > 1')).toThrow(new FilterError('no_such'));
  expect(() => chosenRuns(RUNS, 'batch_size < many')).toThrow(FilterError);
});

it('sorts runs, with those without a value last', () => {
  expect(ids(sortedRuns(RUNS, 'last.val_loss', false))).toBe('bac');
  expect(ids(sortedRuns(RUNS, 'last.val_loss', true))).toBe('abc');
  expect(rowOf(RUNS[0]!).get('seconds')).toBe(2.5);
});

it('marks differences', () => {
  const lines = new Map(compareRuns(RUNS.slice(0, 2)).map(line => [line.column, line]));
  expect(lines.get('parameters.batch_size')).toEqual({
    column: 'parameters.batch_size',
    values: [64, 128],
    differs: true
  });
  expect(lines.get('parameters.epochs')?.differs).toBe(false);
  expect(lines.has('id')).toBe(false);
});

it('filters ten thousand runs', () => {
  const many = Array.from({ length: 10_000 }, (_, index) =>
    run(`r${index}`, index % 2 ? 'ps' : 'allreduce', index, 64)
  );
  expect(chosenRuns(many, 'strategy = ps and val_loss < 100')).toHaveLength(50);
});
