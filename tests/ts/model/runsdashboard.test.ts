import { DocumentModel } from '@jupyterlab/docregistry';
import { describe, expect, it } from 'vitest';

import { RunsDashboardModel } from '../../../src/model/runsdashboard';
import { DashboardError, emptyDashboard, readDashboard, writeDashboard } from '../../../src/model/runsdashboardtext';

const TWO = {
  ...emptyDashboard(),
  title: 'Rates',
  runs: [
    { id: 'a', name: 'digits' },
    { id: 'gone', name: 'old digits' }
  ],
  plots: [
    { metric: 'loss', smoothing: 0.5, log: true },
    { metric: 'accuracy', smoothing: 0, log: false }
  ]
};

function open(source: string, readOnly = false) {
  const text = new DocumentModel();
  text.fromString(source);
  text.sharedModel.clearUndoHistory();
  text.dirty = false;
  const names = new Map([['a', 'digits']]);
  const model = new RunsDashboardModel(
    text,
    id => names.get(id),
    () => readOnly
  );
  return { text, model, names };
}

function refusal(source: string): DashboardError {
  try {
    readDashboard(source);
  } catch (error) {
    if (error instanceof DashboardError) {
      return error;
    }
    throw error;
  }
  throw new Error('it was read');
}

describe('the text of a dashboard', () => {
  it('is read as it was written, with one run or plot per line', () => {
    const text = writeDashboard(TWO);
    expect(readDashboard(text)).toEqual(TWO);
    expect(text).toContain('\n    {"metric": "loss", "smoothing": 0.5, "log": true},\n');
  });

  it('may omit fields with a default, and may be empty', () => {
    const found = readDashboard('{"runs": [{"id": "a"}], "plots": [{"metric": "loss"}]}');
    expect(found.runs).toEqual([{ id: 'a', name: '' }]);
    expect(found.plots).toEqual([{ metric: 'loss', smoothing: 0, log: false }]);
    expect(found.x).toBe('step');
    expect(readDashboard(' \n')).toEqual(emptyDashboard());
  });

  it('contains each run and each plot once', () => {
    const found = readDashboard('{"runs": [{"id": "a"}, {"id": "a"}], "plots": [{"metric": "l"}, {"metric": "l"}]}');
    expect([found.runs.length, found.plots.length]).toEqual([1, 1]);
  });

  it.each([
    ['{"runs": [', 'This is not JSON', 1, 11],
    ['[]', 'A dashboard must be a JSON object', 1, 1],
    ['{"version": 2}', 'This dashboard has version 2. This version of jupyter_dtf reads 1', 1, 13],
    ['{"version": "1"}', '`version` must be a whole number, got "1"', 1, 13],
    ['{\n "x": "epoch"}', 'x must be "step" or "time", got "epoch"', 2, 7],
    ['{"plots": [{"metric": "loss", "smoothing": 1}]}', 'plots.0.smoothing must be from 0 to 0.98, got 1', 1, 44],
    ['{"plots": [{"log": true}]}', 'The key "metric" is missing', 1, 12],
    ['{"runs": [], "colour": 1}', 'There is no key "colour" here. Known: version, title, x, runs, plots', 1, 24]
  ])('is rejected with the position of the error: %s', (source, message, line, column) => {
    const error = refusal(source);
    expect(error.message).toContain(message);
    expect([error.line, error.column]).toEqual([line, column]);
  });
});

describe('RunsDashboardModel', () => {
  it('writes changes with the current names of the runs, and marks the document as unsaved', () => {
    const { text, model, names } = open(writeDashboard(TWO));
    expect(text.dirty).toBe(false);
    names.set('a', 'digits renamed');
    model.edit(draft => {
      draft.plots = draft.plots.filter(({ metric }) => metric !== 'accuracy');
    });
    expect(text.dirty).toBe(true);
    const written = readDashboard(text.toString());
    expect(written.plots.map(({ metric }) => metric)).toEqual(['loss']);
    expect(written.runs).toEqual([
      { id: 'a', name: 'digits renamed' },
      { id: 'gone', name: 'old digits' }
    ]);
    model.undo();
    expect(text.toString()).toBe(writeDashboard(TWO));
    expect(model.dashboard).toEqual(TWO);
    expect(model.canUndo).toBe(false);
    model.edit(draft => (draft.title = 'new'));
    let told = 0;
    model.changed.connect(() => (told += 1));
    text.sharedModel.clearUndoHistory(); // as when the file is read again
    expect([model.canUndo, told]).toEqual([false, 1]);
  });

  it('reorders plots', () => {
    const { model } = open(writeDashboard(TWO));
    const order = () => model.dashboard.plots.map(({ metric }) => metric);
    model.movePlot('accuracy', 1);
    expect(order()).toEqual(['loss', 'accuracy']);
    model.movePlot('accuracy', -1);
    expect(order()).toEqual(['accuracy', 'loss']);
    model.movePlot('no such', -1);
    expect(order()).toEqual(['accuracy', 'loss']);
  });

  it('does not change an invalid text, and reads it once it is valid', () => {
    const { text, model } = open('{"plots": 3}');
    let changes = 0;
    model.changed.connect(() => (changes += 1));
    expect(model.error?.message).toBe('`plots` must be an array, got 3');
    expect(model.canEdit).toBe(false);
    model.edit(draft => (draft.title = 'new'));
    expect(text.toString()).toBe('{"plots": 3}');
    expect(changes).toBe(0);
    text.fromString('{"plots": []}');
    expect(model.error).toBeNull();
    expect(model.canEdit).toBe(true);
    expect(changes).toBeGreaterThan(0);
  });

  it('does not change a read-only file', () => {
    const { text, model } = open(writeDashboard(TWO), true);
    model.edit(draft => (draft.title = 'new'));
    expect(text.toString()).toBe(writeDashboard(TWO));
  });

  it('does not follow the text after it is disposed', () => {
    const { text, model } = open(writeDashboard(TWO));
    model.dispose();
    text.fromString('{}');
    expect(model.dashboard.title).toBe('Rates');
  });
});
