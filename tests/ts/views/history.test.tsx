import { nullTranslator } from '@jupyterlab/translation';
import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import React from 'react';
import { afterEach, expect, it, vi } from 'vitest';

import type { RunsDashboard } from '../../../src/api/schema';
import type { EventSocket } from '../../../src/api/socket';
import { PlotChoices } from '../../../src/model/plotchoices';
import { DEFAULT_PREFERENCES } from '../../../src/model/preferences';
import { RunModel } from '../../../src/model/run';
import { FIRST_CHOICES, History, HistoryChoices } from '../../../src/views/history/history';
import { runInfo } from '../fixtures';

vi.mock('../../../src/plots/grid', () => ({ PlotGrid: class {} }));
afterEach(cleanup);

const trans = nullTranslator.load('jupyter_dtf');
const marks = runInfo('x').marks;
const best = (value: number) => ({ val_loss: { value, step: 0, epoch: 1 } });
const origin = { ...runInfo('x').origin, versions: { Keras: '3.15.1' } };
const RUNS = [
  runInfo('a', { created: 2, parameters: { batch_size: 64 }, state: 'succeeded', best: best(0.5), origin }),
  runInfo('b', { created: 3, parameters: { batch_size: 128 }, state: 'failed', best: best(0.25), origin }),
  runInfo('c', { created: 1, marks: { ...marks, archived: true } })
];
const socket = { show: () => undefined, subscribe: () => undefined, unsubscribe: () => undefined };
const models = new Map(RUNS.map(run => [run.id, new RunModel(run, socket as unknown as EventSocket)]));

function Shown(props: {
  told?: (what: string) => void;
  save?: (dashboard: RunsDashboard) => void;
}): React.ReactElement {
  const [choices, setChoices] = React.useState<HistoryChoices>({ ...FIRST_CHOICES, columns: ['batch_size'] });
  const plots = React.useMemo(() => new PlotChoices(), []);
  const tell = (what: string) => (ids: readonly string[] | string) => props.told?.(`${what} ${String(ids)}`);
  return (
    <History
      runs={RUNS}
      ready
      choices={choices}
      model={id => models.get(id)}
      title={id => `name-${id}`}
      preferences={DEFAULT_PREFERENCES}
      plots={plots}
      themeChanged={null}
      trans={trans}
      onOpen={tell('open')}
      onMenu={tell('menu')}
      onArchive={tell('archive')}
      onDelete={tell('delete')}
      onChoices={setChoices}
      onCopy={tell('copy')}
      onSaveDashboard={dashboard => props.save?.(dashboard)}
    />
  );
}

const names = () => screen.getAllByRole('listitem').map(row => row.getAttribute('data-run'));

it('filters and sorts runs, and shows archived ones on request', () => {
  render(<Shown />);
  expect(names()).toEqual(['b', 'a']);
  fireEvent.click(screen.getByRole('button', { name: 'name' }));
  expect(names()).toEqual(['a', 'b']);
  fireEvent.click(screen.getByRole('button', { name: 'name' }));
  expect(names()).toEqual(['b', 'a']);
  fireEvent.click(screen.getByLabelText('Include archived'));
  expect(names()).toEqual(['c', 'b', 'a']);
  const find = screen.getByRole('searchbox', { name: 'Find runs by words or conditions' });
  fireEvent.change(find, { target: { value: 'batch_size < 100 and state = succeeded' } });
  expect(names()).toEqual(['a']);
  expect(screen.getByText('1 of 3')).toBeTruthy();
  fireEvent.change(find, { target: { value: 'no_such = 1' } });
  expect(screen.getByText('Invalid query: no_such')).toBeTruthy();
});

it('has selectable columns', () => {
  render(<Shown />);
  expect(screen.queryByRole('button', { name: 'strategy' })).toBeNull();
  fireEvent.click(within(screen.getByRole('group', { name: 'Columns', hidden: true })).getByLabelText('strategy'));
  expect(screen.getByRole('button', { name: 'strategy' })).toBeTruthy();
  expect(screen.getAllByText('allreduce')).toHaveLength(2);
});

it('compares the selected runs, with only the differences at first', () => {
  const told: string[] = [];
  render(<Shown told={what => told.push(what)} />);
  fireEvent.click(screen.getByLabelText('Compare name-a'));
  expect(screen.queryByRole('region', { name: 'Comparison' })).toBeNull();
  fireEvent.click(screen.getByLabelText('Compare name-b'));
  fireEvent.click(screen.getByRole('tab', { name: 'Parameters' }));
  const table = () => within(screen.getByRole('table'));
  expect(table().getByRole('row', { name: 'parameters.batch_size 64 128' })).toBeTruthy();
  expect(table().queryByText('cluster')).toBeNull();
  fireEvent.click(screen.getByLabelText('Differences only'));
  expect(table().getByText('cluster')).toBeTruthy();
  fireEvent.click(screen.getByRole('button', { name: 'name-a' }));
  expect(told).toEqual(['open a']);
  fireEvent.click(screen.getByRole('button', { name: 'Deselect all' }));
  expect(screen.queryByRole('region', { name: 'Comparison' })).toBeNull();
});

it('saves the comparison as a file', () => {
  const save = vi.fn();
  render(<Shown save={save} />);
  ['a', 'b'].forEach(id => fireEvent.click(screen.getByLabelText(`Compare name-${id}`)));
  fireEvent.change(screen.getByLabelText('smooth'), { target: { value: '0.5' } });
  fireEvent.click(screen.getByRole('button', { name: 'Save as dashboard file' }));
  const [first] = RUNS;
  expect(save).toHaveBeenCalledWith({
    version: 1,
    title: '',
    x: 'step',
    runs: [
      { id: 'a', name: first!.name },
      { id: 'b', name: RUNS[1]!.name }
    ],
    plots: models.get('a')!.metrics.map(metric => ({ metric, smoothing: 0.5, log: false }))
  });
});

it('groups by a column, with collapsed groups, counts and the best value', () => {
  render(<Shown />);
  fireEvent.click(within(screen.getByRole('group', { name: 'Columns', hidden: true })).getByLabelText('best val_loss'));
  fireEvent.change(screen.getByLabelText('Group by'), { target: { value: 'strategy' } });
  const [group] = screen.getAllByRole('listitem');
  expect(group!.textContent).toBe('allreduce 2 runs★ 0.25');
  expect(screen.queryByLabelText('Compare name-a')).toBeNull();
  fireEvent.click(within(group!).getByRole('button', { expanded: false }));
  expect(names()).toEqual([null, 'b', 'a']);
  fireEvent.click(screen.getByLabelText('Include archived'));
  expect(names()).toEqual([null, 'b', 'a', 'c']);
  fireEvent.click(screen.getByRole('button', { name: 'Collapse all' }));
  expect(names()).toEqual([null]);
});

it('shows the code and the designs of two runs side by side', () => {
  const code = (rate: string) => [{ name: 'cell', text: `import keras\nrate = ${rate}\nfit(rate)\n` }];
  const design = (batch: number) => ({
    name: 'lab.dtf',
    text: JSON.stringify({ version: 1, run: { batch_size: batch }, placement: { devices: { dense: 'x' } } })
  });
  const submitted = (id: string, rate: string, batch: number) => ({
    type: 'events' as const,
    run: id,
    next_seq: 1,
    events: [{ type: 'submitted' as const, seq: 0, time: 1, attempt: 0, code: code(rate), design: design(batch) }]
  });
  const told: string[] = [];
  render(<Shown told={what => told.push(what)} />);
  ['a', 'b'].forEach(id => fireEvent.click(screen.getByLabelText(`Compare name-${id}`)));
  fireEvent.click(screen.getByRole('tab', { name: 'Code' }));
  expect(screen.getByText('Looking for the code…')).toBeTruthy();
  act(() => {
    models.get('a')!.applyEvents(submitted('a', '0.1', 64));
    models.get('b')!.applyEvents(submitted('b', '0.25', 128));
  });
  const piece = within(screen.getByRole('region', { name: 'cell' }));
  expect(piece.getByText('1 line differs')).toBeTruthy();
  const [, , changed] = piece.getAllByRole('row');
  expect(changed!.textContent).toBe('2−rate = 0.12+rate = 0.25');
  expect(changed!.querySelector('ins')!.textContent).toBe('25');
  fireEvent.change(screen.getByLabelText('Run on the left'), { target: { value: 'b' } });
  fireEvent.click(screen.getByRole('button', { name: 'Copy the versions and the commit of name-b' }));
  expect(told).toEqual(['copy Keras 3.15.1\n']);
  fireEvent.click(screen.getByRole('tab', { name: 'Designs' }));
  const designs = () => within(screen.getByRole('table', { name: 'Designs' }));
  expect(designs().getByRole('row', { name: 'run.batch_size 64 128' })).toBeTruthy();
  expect(designs().queryByText('placement.dense')).toBeNull();
});

it('archives and deletes only runs that are selected and shown, and deselects them', () => {
  const told: string[] = [];
  render(<Shown told={what => told.push(what)} />);
  const archived = screen.getByLabelText('Include archived');
  fireEvent.click(archived);
  ['a', 'b', 'c'].forEach(id => fireEvent.click(screen.getByLabelText(`Compare name-${id}`)));
  fireEvent.click(archived);
  const find = screen.getByRole('searchbox', { name: 'Find runs by words or conditions' });
  fireEvent.change(find, { target: { value: 'state = failed' } });
  fireEvent.click(screen.getByRole('button', { name: 'Archive' }));
  expect(screen.queryByRole('button', { name: 'Archive' })).toBeNull();
  fireEvent.change(find, { target: { value: '' } });
  fireEvent.click(screen.getByRole('button', { name: 'Delete' }));
  fireEvent.click(archived);
  expect(screen.getByText('1 selected')).toBeTruthy();
  fireEvent.click(screen.getByRole('button', { name: 'Delete' }));
  expect(told).toEqual(['archive b', 'delete a', 'delete c']);
});
