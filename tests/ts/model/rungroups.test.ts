import { expect, it } from 'vitest';

import type { RunInfo } from '../../../src/api/schema';
import { direction, groupCell, groupedRuns, groupLines } from '../../../src/model/rungroups';
import { runInfo } from '../fixtures';

const { marks } = runInfo('x');
const run = (id: string, strategy: string, loss: number, ...tags: string[]): RunInfo =>
  runInfo(id, {
    strategy,
    created: 1000 + loss,
    best: { val_loss: { value: loss, step: 0, epoch: 1 }, val_accuracy: { value: loss, step: 0, epoch: 1 } },
    marks: { ...marks, tags }
  });
const RUNS = [run('a', 'ps', 3, 'slow', 'old'), run('b', '', 1), run('c', 'allreduce', 2, 'old'), run('d', 'ps', 4)];
const shown = (column: string) =>
  groupedRuns(RUNS, column).map(({ value, runs }) => `${value}: ${runs.map(({ id }) => id).join('')}`);

it('groups runs with equal values, in the order of the runs, with those without a value last', () => {
  expect(shown('strategy')).toEqual(['ps: ad', 'allreduce: c', 'undefined: b']);
  expect(shown('parameters.batch_size')).toEqual(['64: abcd']);
});

it('puts a run into the group of each of its tags', () => {
  expect(shown('tags')).toEqual(['slow: a', 'old: ac', 'undefined: bd']);
});

it('groups times by day', () => {
  const day = (date: number) => runInfo(String(date), { created: new Date(2026, 4, date, 13).getTime() / 1000 });
  const groups = groupedRuns([day(3), day(2), { ...day(3), id: 'x' }], 'created');
  expect(groups.map(({ value, runs }) => [new Date(1000 * (value as number)).getDate(), runs.length])).toEqual([
    [3, 2],
    [2, 1]
  ]);
});

it('shows the runs of open groups, as the same objects each time', () => {
  const groups = groupedRuns(RUNS, 'tags');
  const open = new Set([groups[1]!.key]);
  const lines = groupLines(groups, open);
  expect(lines).toHaveLength(5);
  expect(lines[2]).toEqual({ run: RUNS[0], group: 'string old' });
  expect(groupLines(groupedRuns(RUNS, 'tags'), open)[2]).toBe(lines[2]);
});

it('summarizes a group: a common value, the best, or the newest', () => {
  expect(groupCell(RUNS, 'best.val_loss')).toEqual({ value: 1, is: 'best' });
  expect(groupCell(RUNS, 'best.val_accuracy')).toEqual({ value: 4, is: 'best' });
  expect(groupCell(RUNS, 'last.no_such')).toBeUndefined();
  expect(groupCell(RUNS, 'cluster')).toEqual({ value: 'digits', is: 'all' });
  expect(groupCell(RUNS, 'strategy')).toBeUndefined();
  expect(groupCell(RUNS, 'created')).toEqual({ value: 1004, is: 'newest' });
});

// The same cases as in tests/python/schema/test_metrics.py.
it.each([
  ['val_loss', -1],
  ['accuracy', 1],
  ['rmse', -1],
  ['examples_per_second', 0],
  ['no_such', 0]
])('knows which way %s is better', (metric, wanted) => {
  expect(direction(metric)).toBe(wanted);
});
