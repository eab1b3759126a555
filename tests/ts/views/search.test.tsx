import { nullTranslator } from '@jupyterlab/translation';
import { cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import type { RunInfo } from '../../../src/api/schema';
import { searchesOf } from '../../../src/model/search';
import { Runs } from '../../../src/views/runlist';
import { SearchView } from '../../../src/views/search/searchview';
import { runInfo, taskInfo } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

function trialRun(number: number, change: Partial<RunInfo> = {}): RunInfo {
  return runInfo(`run-${number}`, {
    name: `sweep ${number}`,
    trial: {
      search: 's',
      name: 'sweep',
      number,
      objectives: { loss: 'minimize' },
      parameters: ['rate', 'kind'],
      logarithmic: ['rate'],
      in_words: [],
      most: 6,
      may_grow: true,
      asked_more: 0,
      asked_stop: false
    },
    state: 'succeeded',
    created: 1000 + number,
    started: 1000 + number,
    ended: 1002 + number,
    latest: { loss: 1 / (number + 1) },
    headline: { loss: 1 / (number + 1) },
    parameters: { rate: 0.1 ** number, kind: number % 2 === 0 ? 'a' : 'b' },
    tasks: [taskInfo('worker:0', { host: 'node' })],
    ...change
  });
}

const RUNS = [
  ...Array.from({ length: 5 }, (_, number) => trialRun(number)),
  trialRun(5, { state: 'running', ended: null })
];

function show(runs: readonly RunInfo[] = RUNS) {
  const actions = { onOpen: vi.fn(), onStop: vi.fn(), onStopSearch: vi.fn(), onMore: vi.fn(), onCopy: vi.fn() };
  const shown = render(<SearchView search={searchesOf(runs)[0]!} trans={trans} {...actions} />);
  return { ...actions, ...shown };
}

const rows = () => screen.getAllByRole('row').slice(1);

describe('SearchView', () => {
  it('shows the state of the search, and a row for each trial', () => {
    show();
    expect(screen.getByText('5/6 trials')).toBeTruthy();
    expect(screen.getByText('1 running')).toBeTruthy();
    expect(screen.getByText('best loss 0.2 (trial 4)')).toBeTruthy();
    expect(rows()).toHaveLength(6);
    expect(screen.getByRole('button', { name: 'Trial 4, the best' })).toBeTruthy();
    const newest = within(rows()[0]!);
    expect(newest.getByRole('button', { name: 'Trial 5' })).toBeTruthy();
    expect(newest.getByText('node')).toBeTruthy();
  });

  it('sorts by a column, in both orders', () => {
    show();
    const first = () => rows()[0]!.getAttribute('data-trial');
    fireEvent.click(within(screen.getByRole('columnheader', { name: /loss/ })).getByRole('button'));
    expect(screen.getByRole('columnheader', { name: /loss/ }).getAttribute('aria-sort')).toBe('ascending');
    expect(first()).toBe('5');
    fireEvent.click(within(screen.getByRole('columnheader', { name: /loss/ })).getByRole('button'));
    expect(first()).toBe('0');
  });

  it('can be stopped and extended while it runs', () => {
    const { onStopSearch, onMore } = show();
    fireEvent.click(screen.getByRole('button', { name: 'Stop search' }));
    expect(onStopSearch).toHaveBeenLastCalledWith('s');
    fireEvent.click(screen.getByRole('button', { name: 'Add trials…' }));
    expect(onMore).toHaveBeenLastCalledWith('s');
    cleanup();
    const last = trialRun(5, { state: 'running', ended: null });
    const asked = (change: object) => [...RUNS.slice(0, 5), { ...last, trial: { ...last.trial!, ...change } }];
    show(asked({ asked_more: 4, asked_stop: true }));
    expect(screen.getByText('5/10 trials')).toBeTruthy();
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Stopping…' }).disabled).toBe(true);
    cleanup();
    show(asked({ may_grow: false }));
    expect(screen.queryByRole('button', { name: 'Add trials…' })).toBeNull();
    cleanup();
    show(RUNS.slice(0, 5));
    expect(screen.queryByRole('button', { name: 'Stop search' })).toBeNull();
  });

  it('copies, opens and stops a trial', () => {
    const { onCopy, onOpen, onStop } = show();
    fireEvent.click(screen.getByRole('button', { name: 'Copy best as code' }));
    expect(onCopy).toHaveBeenLastCalledWith(expect.stringContaining('"kind": "a",'));
    fireEvent.click(screen.getByRole('button', { name: 'Trial 1' }));
    fireEvent.click(screen.getByRole('button', { name: 'Copy the parameters of trial 1' }));
    expect(onCopy).toHaveBeenLastCalledWith('params = {\n    "rate": 0.1,\n    "kind": "b",\n}');
    fireEvent.click(screen.getByRole('button', { name: 'Open the dashboard of trial 3' }));
    expect(onOpen).toHaveBeenLastCalledWith('run-3');
    fireEvent.click(screen.getByRole('button', { name: 'Stop trial 5' }));
    expect(onStop).toHaveBeenLastCalledWith('run-5');
    expect(screen.queryByRole('button', { name: 'Stop trial 3' })).toBeNull();
  });

  it('selects trials with the keyboard, for all tabs', () => {
    show();
    fireEvent.click(screen.getByRole('tab', { name: 'Parallel' }));
    fireEvent.change(screen.getByRole('combobox', { name: 'kind' }), { target: { value: 'b' } });
    expect(screen.getByText('3 of 6 trials are chosen')).toBeTruthy();
    fireEvent.change(screen.getByRole('spinbutton', { name: 'rate to' }), { target: { value: '0.01' } });
    expect(screen.getByText('2 of 6 trials are chosen')).toBeTruthy();
    fireEvent.click(screen.getByRole('tab', { name: 'Table' }));
    expect(rows().map(row => row.getAttribute('data-trial'))).toEqual(['5', '3']);
    fireEvent.click(screen.getByRole('button', { name: 'Choose all' }));
    expect(rows()).toHaveLength(6);
  });

  it('stops brushing an axis when the browser takes the pointer away', () => {
    const { container } = show();
    fireEvent.click(screen.getByRole('tab', { name: 'Parallel' }));
    const grab = container.querySelector('.jp-dtf-parallel-axis .jp-dtf-parallel-grab')!;
    Object.assign(grab, { setPointerCapture: () => undefined }); // jsdom has no capture
    const at = (type: string, clientY: number) =>
      fireEvent(grab, new MouseEvent(type, { bubbles: true, button: 0, clientY }));
    const brush = () => container.querySelector('.jp-dtf-parallel-brush')?.getAttribute('height');
    at('pointerdown', 50);
    at('pointermove', 100);
    const before = brush();
    expect(before).toBeTruthy();
    at('pointercancel', 100);
    at('pointermove', 150);
    expect(brush()).toBe(before);
  });

  it('shows importance, history and devices', () => {
    show(RUNS.map(run => ({ ...run, pruned: run.id === 'run-2', state: run.id === 'run-2' ? 'stopped' : run.state })));
    fireEvent.click(screen.getByRole('tab', { name: 'Importance' }));
    expect(screen.getByText(/^Importance is the rank correlation with loss over 4 complete trials/)).toBeTruthy();
    expect(screen.getByRole('progressbar', { name: 'Importance of rate' }).getAttribute('aria-valuenow')).toBe('100');
    fireEvent.click(screen.getByRole('tab', { name: 'History' }));
    expect(screen.getByRole('img', { name: 'Trends of 6 trials' }).querySelectorAll('.jp-dtf-pruned')).toHaveLength(1);
    fireEvent.click(screen.getByRole('tab', { name: 'Devices' }));
    expect(screen.getByText('host node')).toBeTruthy();
  });
});

it('shows the trials of a search in one row of the runs, which expands', () => {
  const onOpenSearch = vi.fn();
  const nothing = vi.fn();
  const actions = { onOpen: nothing, onStop: nothing, onContinue: nothing, onResume: nothing, onMenu: nothing };
  render(
    <Runs
      runs={[...RUNS].reverse().concat(runInfo('x'))}
      ready
      trans={trans}
      onOpenSearch={onOpenSearch}
      {...actions}
    />
  );
  expect(screen.getAllByRole('listitem')).toHaveLength(2);
  fireEvent.click(screen.getByRole('button', { name: 'Open the search sweep, 5/6 trials, 1 running' }));
  expect(onOpenSearch).toHaveBeenCalledWith('s');
  fireEvent.click(screen.getByRole('button', { name: 'Expand the trials of sweep' }));
  expect(screen.getAllByRole('listitem')).toHaveLength(8);
  fireEvent.click(screen.getByRole('button', { name: 'Collapse the trials of sweep' }));
  expect(screen.getAllByRole('listitem')).toHaveLength(2);
});
