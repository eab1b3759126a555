import { DocumentModel } from '@jupyterlab/docregistry';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import React from 'react';
import { afterEach, expect, it, vi } from 'vitest';

import type { RunInfo } from '../../../src/api/schema';
import type { EventSocket } from '../../../src/api/socket';
import { RunModel } from '../../../src/model/run';
import { RunsDashboardModel } from '../../../src/model/runsdashboard';
import { emptyDashboard, readDashboard, writeDashboard } from '../../../src/model/runsdashboardtext';
import { RunsDashboardView } from '../../../src/views/runsdashboardview';
import { runInfo } from '../fixtures';

vi.mock('../../../src/plots/grid', () => ({ PlotGrid: class {} }));
afterEach(cleanup);

const socket = { show: () => undefined, subscribe: vi.fn(), unsubscribe: vi.fn() };

/** The existing runs, with a signal that is emitted when they change. */
class Runs {
  isReady = false;
  runs: RunInfo[] = [];
  private readonly _models = new Map<string, RunModel>();
  readonly changed = new Signal<this, void>(this);

  set(ready: boolean, ...runs: RunInfo[]): void {
    [this.isReady, this.runs] = [ready, runs];
    this.changed.emit();
  }

  model(id: string): RunModel | undefined {
    const info = this.runs.find(run => run.id === id);
    if (info && !this._models.has(id)) {
      this._models.set(id, new RunModel(info, socket as unknown as EventSocket));
    }
    return info && this._models.get(id);
  }

  title(id: string): string {
    return this.runs.find(run => run.id === id)?.name ?? id;
  }
}

function show(source: string) {
  const text = new DocumentModel();
  text.fromString(source);
  text.sharedModel.clearUndoHistory();
  const runs = new Runs();
  const model = new RunsDashboardModel(text, id => runs.runs.find(run => run.id === id)?.name);
  const [onOpenRun, onOpenText] = [vi.fn(), vi.fn()];
  const parts = { model, runs, rate: 5, themeChanged: null, onOpenRun, onOpenText };
  render(<RunsDashboardView {...parts} trans={nullTranslator.load('jupyter_dtf')} />);
  return { text, runs, onOpenRun, onOpenText, kept: () => readDashboard(text.toString()) };
}

const SOURCE = writeDashboard({
  ...emptyDashboard(),
  runs: [
    { id: 'a', name: 'first' },
    { id: 'gone', name: 'lost run' }
  ],
  plots: [
    { metric: 'loss', smoothing: 0, log: false },
    { metric: 'f1', smoothing: 0, log: false }
  ]
});

it('names missing runs once they are known to be missing, and follows the existing ones', () => {
  const { runs, onOpenRun } = show(SOURCE);
  const list = within(screen.getByRole('list', { name: 'Runs' }));
  expect(list.queryByText('lost run no longer exists')).toBeNull();
  act(() => runs.set(true, runInfo('a', { name: 'digits', latest: { loss: 1 } })));
  expect(list.getByText('lost run no longer exists')).toBeTruthy();
  expect(runs.model('a')!.isWatched).toBe(true);
  fireEvent.click(list.getByRole('button', { name: 'digits' }));
  expect(onOpenRun).toHaveBeenCalledWith('a');
  expect(screen.getByText('None of these runs has reported f1.')).toBeTruthy();
  expect(screen.queryByText('None of these runs has reported loss.')).toBeNull();
  act(() => runs.set(true));
  expect(list.getByText('first no longer exists')).toBeTruthy();
});

it('adds, orders and removes plots and runs', () => {
  const { runs, kept } = show(SOURCE);
  act(() => runs.set(true, runInfo('a', { latest: { loss: 1 } }), runInfo('b', { name: 'second' })));
  const metrics = () => kept().plots.map(({ metric }) => metric);
  const field = screen.getByRole('combobox', { name: 'The metric of a plot to add' });
  fireEvent.change(field, { target: { value: ' loss ' } });
  expect(screen.getByRole('button', { name: 'Add plot' }).hasAttribute('disabled')).toBe(true); // it already exists
  fireEvent.change(field, { target: { value: 'accuracy' } });
  fireEvent.click(screen.getByRole('button', { name: 'Add plot' }));
  expect(metrics()).toEqual(['loss', 'f1', 'accuracy']);
  fireEvent.click(screen.getByRole('button', { name: 'Move accuracy up' }));
  fireEvent.click(screen.getByRole('button', { name: 'Remove the plot of f1' }));
  expect(metrics()).toEqual(['loss', 'accuracy']);
  const loss = within(screen.getByRole('region', { name: 'Plot of loss' }));
  fireEvent.click(loss.getByLabelText('log'));
  fireEvent.change(loss.getByLabelText('smooth'), { target: { value: '0.5' } });
  expect(kept().plots[0]).toEqual({ metric: 'loss', smoothing: 0.5, log: true });
  fireEvent.change(screen.getByLabelText('Add a run'), { target: { value: 'b' } });
  fireEvent.click(screen.getByRole('button', { name: 'Remove lost run' }));
  expect(kept().runs.map(({ id, name }) => [id, name])).toEqual([
    ['a', runs.title('a')],
    ['b', 'second']
  ]);
});

it('shows what is wrong with a file, and does not change it', () => {
  const { text, onOpenText } = show('{"plots": 3}');
  expect(screen.getByRole('alert').textContent).toContain('`plots` must be an array, got 3');
  fireEvent.click(screen.getByRole('button', { name: 'Open as text' }));
  expect(onOpenText).toHaveBeenCalled();
  expect(text.toString()).toBe('{"plots": 3}');
});
