import { describe, expect, it } from 'vitest';

import type { RunInfo, TrialInfo } from '../../../src/api/schema';
import { curveOf, parametersCode, searchesOf, sorted, timelineOf, trialOf } from '../../../src/model/search';
import {
  associations,
  type Brush,
  axesOf,
  bestTenth,
  isChosen,
  placeOf,
  ranks,
  roundTicks,
  valueAt
} from '../../../src/model/searchaxes';
import { runInfo, taskInfo } from '../fixtures';

const TRIAL: TrialInfo = {
  search: 's',
  name: 'sweep',
  number: 0,
  objectives: { acc: 'maximize' },
  parameters: ['rate', 'kind'],
  logarithmic: ['rate'],
  in_words: [],
  most: 4,
  may_grow: true,
  asked_more: 0,
  asked_stop: false
};

/** Returns a complete trial with this value of `acc`. */
function trialRun(
  number: number,
  value: number,
  change: Partial<RunInfo> = {},
  told: Partial<TrialInfo> = {}
): RunInfo {
  return runInfo(`${told.search ?? 's'}-${number}`, {
    trial: { ...TRIAL, number, ...told },
    state: 'succeeded',
    created: 1000 + number,
    started: 1000 + number,
    ended: 1002 + number,
    latest: { acc: value, loss: 1 },
    parameters: { rate: 10 ** -number, kind: number % 2 === 0 ? 'a' : 'b' },
    tasks: [taskInfo('worker:0', { host: String(number % 2) })],
    ...change
  });
}

describe('searchesOf', () => {
  it('collects the trials of each search, and marks the best', () => {
    const runs = [
      runInfo('alone'),
      trialRun(2, 0.8),
      trialRun(0, 0.5),
      trialRun(1, 0.9),
      trialRun(3, 0.99, { state: 'running', ended: null }),
      trialRun(7, 0.1, { created: 5000 }, { search: 'other', name: 'later' })
    ];
    const [later, sweep] = searchesOf(runs);
    expect(later!.name).toBe('later');
    expect(sweep!.trials.map(trial => trial.number)).toEqual([0, 1, 2, 3]);
    expect(sweep!.best.map(trial => trial.number)).toEqual([1]); // the maximum of the complete ones
    expect(sweep!.isRunning).toBe(true);
    expect(later!.isRunning).toBe(false);
    expect(sweep!.trials[3]!.value).toBe(0.99); // its last reported value
  });

  it('returns the state of each trial, as the driver does', () => {
    const state = (change: Partial<RunInfo>) => trialOf(trialRun(0, 0.5, change))!;
    expect(state({}).state).toBe('complete');
    expect(state({ state: 'stopped' }).state).toBe('stopped');
    expect(state({ state: 'stopped', pruned: true }).state).toBe('pruned');
    expect(state({ state: 'pending' }).state).toBe('waiting');
    expect(state({ state: 'restarting' }).state).toBe('running');
    expect(state({ state: 'lost', message: 'gone' })).toMatchObject({ state: 'failed', error: 'gone' });
    expect(state({ values: { acc: 0.7 } }).value).toBe(0.7); // a returned value takes precedence over a reported one
    expect(state({ values: { acc: null } })).toMatchObject({ state: 'failed', error: 'It has no acc' }); // no number
    expect(state({ latest: {} })).toMatchObject({ state: 'failed', value: null });
  });

  it('returns a Pareto front for several objectives', () => {
    const objectives = { acc: 'maximize', size: 'minimize' };
    const run = (number: number, acc: number, size: number) =>
      trialRun(number, acc, { values: { acc, size } }, { objectives });
    const [search] = searchesOf([run(0, 0.9, 10), run(1, 0.8, 5), run(2, 0.8, 6), run(3, 0.7, 20)]);
    expect(search!.best.map(trial => trial.number)).toEqual([0, 1]);
  });

  it('returns the same object while a run has not changed', () => {
    const run = trialRun(0, 0.5);
    expect(trialOf(run)).toBe(trialOf(run));
    expect(trialOf({ ...run })).not.toBe(trialOf(run));
  });
});

it('sorts by any column, with missing values last', () => {
  const [search] = searchesOf([
    trialRun(0, 0.5),
    trialRun(1, 0.9),
    trialRun(2, 0, { latest: {}, state: 'pending', started: null })
  ]);
  const numbers = (...by: [Parameters<typeof sorted>[1], boolean]) =>
    sorted(search!.trials, ...by).map(trial => trial.number);
  expect(numbers({ of: 'objective', index: 0 }, false)).toEqual([0, 1, 2]);
  expect(numbers({ of: 'objective', index: 0 }, true)).toEqual([1, 0, 2]);
  expect(numbers({ of: 'parameter', name: 'rate' }, false)).toEqual([2, 1, 0]);
  expect(numbers({ of: 'duration' }, true)).toEqual([0, 1, 2]);
});

it('writes parameters as Python', () => {
  const run = trialRun(
    0,
    1,
    { parameters: { rate: 0.01, 'a "b"': 'x', on: true, none: null, shape: '(1, 2)' } },
    { in_words: ['shape'] }
  );
  expect(parametersCode(trialOf(run)!)).toBe(
    'params = {\n    "rate": 0.01,\n    "a \\"b\\"": "x",\n    "on": True,\n    "none": None,\n    "shape": (1, 2),\n}'
  );
});

it('returns the curve of a trial over its steps', () => {
  const run = trialRun(0, 1, { sparkline: [3, 2, 1], sparkline_steps: [10, 30] });
  expect(curveOf(trialOf(run)!)).toEqual([
    [10, 3],
    [20, 2],
    [30, 1]
  ]);
});

it('shows which device ran which trial when', () => {
  const host = (number: number, change: Partial<RunInfo>) =>
    trialRun(number, 1, { tasks: [taskInfo('worker:0', { host: 'a', gpus: number === 3 ? ['1'] : [] })], ...change });
  const [search] = searchesOf([
    host(0, { started: 0, ended: 10 }),
    host(1, { started: 5, ended: 8 }),
    host(2, { started: 10, ended: null, state: 'running' }),
    host(3, { started: 0, ended: 20 })
  ]);
  const { rows, start, end } = timelineOf(search!.trials, 20);
  expect([start, end]).toEqual([0, 20]);
  expect(rows.map(row => row.place)).toEqual(['a', 'a · GPU 1']);
  expect(rows[0]!.bars.map(bar => [bar.trial.number, bar.lane, bar.end])).toEqual([
    [0, 0, 10],
    [1, 1, 8],
    [2, 0, 20]
  ]);
  expect(rows[0]!.busy).toBeCloseTo(23 / 40);
});

it('keeps a trial in the lane of the previous one, whose process ends slightly later', () => {
  const host = (number: number, started: number, ended: number) =>
    trialRun(number, 1, { tasks: [taskInfo('worker:0', { host: 'a' })], started, ended });
  const [search] = searchesOf([host(0, 0, 10.01), host(1, 10, 20), host(2, 19, 30)]);
  const { rows } = timelineOf(search!.trials, 30);
  expect(rows[0]!.bars.map(bar => [bar.start, bar.end, bar.lane])).toEqual([
    [0, 10.01, 0],
    [10.01, 20, 0],
    [19, 30, 1]
  ]);
});

it('lays out very many trials of a host, each in the first free lane', () => {
  const [search] = searchesOf([trialRun(0, 1, { tasks: [taskInfo('worker:0', { host: 'a' })] })]);
  const one = search!.trials[0]!;
  // Comparing each with all other bars would take ten billion comparisons.
  const trials = Array.from({ length: 150_000 }, (_, number) => ({
    ...one,
    number,
    run: { ...one.run, started: number, ended: number + (number % 3 === 0 ? 2.5 : 1) }
  }));
  const { rows } = timelineOf(trials, 0);
  expect(rows.map(({ lanes, bars }) => [lanes, bars.length])).toEqual([[2, 150_000]]);
  expect(rows[0]!.bars.slice(0, 8).map(bar => bar.lane)).toEqual([0, 1, 1, 0, 1, 1, 0, 1]);
});

describe('axes', () => {
  const [search] = searchesOf(Array.from({ length: 20 }, (_, number) => trialRun(number, 1 - number / 20)));
  const axes = axesOf(search!);
  const [rate, kind, acc] = axes;

  it('are logarithmic, linear or categorical', () => {
    expect(axes.map(axis => axis.kind)).toEqual(['log', 'choices', 'linear']);
    expect(placeOf(rate!, 1)).toBeCloseTo(1);
    expect(placeOf(rate!, 1e-19)).toBeCloseTo(0);
    expect(valueAt(rate!, placeOf(rate!, 1e-5)!)).toBeCloseTo(1e-5);
    expect([placeOf(kind!, 'a'), placeOf(kind!, 'b'), placeOf(kind!, 'c')]).toEqual([0.25, 0.75, null]);
    expect(placeOf(acc!, null)).toBeNull();
  });

  it('select the trials that are brushed on all axes', () => {
    const chosen = (...brushes: [string, Brush][]) =>
      search!.trials.filter(trial => isChosen(trial, axes, new Map(brushes))).map(trial => trial.number);
    expect(chosen([kind!.id, { choice: 'b' }], [rate!.id, { low: 2e-6, high: 1 }])).toEqual([1, 3, 5]);
    expect(chosen([acc!.id, bestTenth(search!)!])).toEqual([0, 1]);
  });

  it('have round ticks', () => {
    const texts = (low: number, high: number, kind: 'linear' | 'log') =>
      roundTicks({ ...acc!, low, high, kind }, 4, String).map(tick => tick.text);
    expect(texts(0, 5, 'linear')).toEqual(['0', '2', '4']);
    expect(texts(0.1049, 2.432, 'linear')).toEqual(['1', '2']);
    expect(texts(0.1, 0.45, 'linear')).toEqual(['0.1', '0.2', '0.3', '0.4']);
    expect(texts(1e-4, 0.1, 'log')).toEqual(['0.0001', '0.001', '0.01', '0.1']);
  });

  it('show which parameters correlate with the objective, by rank', () => {
    const found = associations(search!);
    expect(found.map(({ name, better }) => [name, better])).toEqual([
      ['rate', 'larger'],
      ['kind', null]
    ]);
    expect(found[0]!.strength).toBeCloseTo(1); // the two decrease together
    expect(found[1]!.strength).toBeLessThan(0.2);
    expect(ranks([5, 1, 5, 2])).toEqual([3.5, 1, 3.5, 2]);
    expect(associations({ ...search!, trials: search!.trials.slice(0, 3) })).toEqual([]);
  });
});
