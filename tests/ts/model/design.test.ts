import { DocumentModel } from '@jupyterlab/docregistry';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { DesignReport } from '../../../src/api/schema';
import { DesignModel } from '../../../src/model/design';
import { emptyDesign, writeDesign } from '../../../src/model/designtext';

function report(change: Partial<DesignReport> = {}): DesignReport {
  return { cluster_spec: {}, tf_config: {}, devices: {}, problems: [], prediction: null, text: '', ...change };
}

function open(source = writeDesign(emptyDesign()), answer: (text: string) => DesignReport = () => report()) {
  const text = new DocumentModel();
  text.fromString(source);
  text.sharedModel.clearUndoHistory();
  const checkDesign = vi.fn((sent: string) => Promise.resolve(answer(sent)));
  const model = new DesignModel(text, { checkDesign });
  return { text, model, checkDesign };
}

const settle = () => vi.advanceTimersByTimeAsync(1000);

describe('DesignModel', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('writes each edit as one undo step, and can undo all of them', () => {
    const { text, model } = open();
    const sources = [text.sharedModel.getSource()];
    for (const count of [3, 4, 5]) {
      model.edit(`Have ${count} workers`, draft => {
        draft.cluster.jobs['worker'] = count;
      });
      sources.push(text.sharedModel.getSource());
    }
    expect(model.design.cluster.jobs).toEqual({ worker: 5 });
    expect(new Set(sources).size).toBe(4);
    expect(text.dirty).toBe(true);
    for (const source of [sources[2], sources[1], sources[0]]) {
      expect(model.undoLabel).toMatch(/^Have \d workers$/);
      model.undo();
      expect(text.sharedModel.getSource()).toBe(source);
    }
    expect(model.canUndo).toBe(false);
    expect(model.design).toEqual(emptyDesign());
    expect(model.redoLabel).toBe('Have 3 workers');
    model.redo();
    expect(model.design.cluster.jobs).toEqual({ worker: 3 });
    expect(model.undoLabel).toBe('Have 3 workers');
  });

  it('saves changes of the drawing without an undo step', () => {
    const { text, model } = open();
    model.edit('Name', draft => {
      draft.cluster.name = 'digits';
    });
    model.keep(draft => {
      draft.drawing['folded'] = ['block'];
    });
    expect(model.design.drawing).toEqual({ folded: ['block'] });
    expect(text.dirty).toBe(true);
    expect(model.undoLabel).toBe('Name');
    model.undo();
    expect(model.design).toEqual({ ...emptyDesign(), drawing: { folded: ['block'] } });
    expect(model.canUndo).toBe(false);
    model.redo();
    expect(model.design.cluster.name).toBe('digits');
    expect(model.design.drawing).toEqual({ folded: ['block'] });
  });

  it('signals a change when the undo history is cleared', () => {
    const { text, model } = open();
    model.edit('Name', draft => {
      draft.cluster.name = 'digits';
    });
    const changed = vi.fn();
    model.changed.connect(changed);
    text.sharedModel.clearUndoHistory();
    expect(changed).toHaveBeenCalledOnce();
    expect(model.canUndo).toBe(false);
  });

  it('writes nothing for an edit without an effect', () => {
    const { text, model } = open();
    model.edit('Nothing', draft => {
      draft.cluster.kind = 'local';
    });
    expect(model.canUndo).toBe(false);
    expect(text.dirty).toBe(false);
  });

  it('never changes a design that it has returned', () => {
    const { model } = open();
    const before = model.design;
    model.edit('Add ps', draft => {
      draft.cluster.jobs['ps'] = 1;
    });
    expect(before.cluster.jobs).toEqual({ worker: 2 });
    expect(model.design.cluster.jobs).toEqual({ worker: 2, ps: 1 });
  });

  it('follows the text, and keeps the last design, without edits, while the text is invalid', () => {
    const { text, model } = open();
    const changed = vi.fn();
    model.changed.connect(changed);
    const good = text.sharedModel.getSource();
    text.sharedModel.setSource(good.replace('"worker": 2', '"worker": 7'));
    expect(model.design.cluster.jobs).toEqual({ worker: 7 });
    text.sharedModel.setSource('{\n  "version": }');
    expect(model.error).toMatchObject({ line: 2, column: 14 });
    expect(model.design.cluster.jobs).toEqual({ worker: 7 });
    model.edit('Nothing', draft => {
      draft.cluster.jobs = {};
    });
    expect(text.sharedModel.getSource()).toBe('{\n  "version": }');
    text.sharedModel.setSource(good);
    expect(model.error).toBeNull();
    expect(changed).toHaveBeenCalledTimes(3);
  });

  it('does not edit a read-only document', () => {
    const { text } = open();
    let writable = false;
    const model = new DesignModel(text, { checkDesign: () => Promise.resolve(report()) }, () => !writable);
    const edit = () =>
      model.edit('Name', draft => {
        draft.cluster.name = 'digits';
      });
    edit();
    expect(model.design.cluster.name).toBe('');
    writable = true;
    edit();
    expect(model.design.cluster.name).toBe('digits');
  });

  it('reads an empty file as an empty design', () => {
    const { text, model } = open('');
    expect(model.error).toBeNull();
    model.edit('Name', draft => {
      draft.cluster.name = 'digits';
    });
    expect(text.sharedModel.getSource()).toBe(writeDesign(model.design));
  });

  it('has the server check the text once after several edits, and keeps the latest report', async () => {
    const { text, model, checkDesign } = open(undefined, sent => report({ devices: { 'worker:0': sent } }));
    for (const name of ['a', 'b', 'c']) {
      model.edit('Name', draft => {
        draft.cluster.name = name;
      });
    }
    expect(model.report).toBeNull();
    await settle();
    expect(checkDesign).toHaveBeenCalledOnce();
    expect(model.report?.devices['worker:0']).toBe(text.sharedModel.getSource());
  });

  it('ignores a report about an outdated design', async () => {
    const { model, checkDesign } = open();
    let answer = (_: DesignReport) => undefined as void;
    checkDesign.mockImplementationOnce(() => new Promise(resolve => (answer = resolve)));
    await settle();
    model.edit('Name', draft => {
      draft.cluster.name = 'newer';
    });
    answer(report({ problems: [{ field: 'cluster.name', message: 'old', level: 'error', line: 0, column: 0 }] }));
    await settle();
    expect(model.report?.problems).toEqual([]);
  });

  it('is not editable while the server reports that an edit would lose data', async () => {
    const problem = { field: 'cluster', message: 'A key appears once', level: 'error', line: 3, column: 5 };
    const { model } = open(undefined, () => report({ problems: [problem] }));
    await settle();
    expect(model.error).toMatchObject({ message: 'A key appears once', line: 3, column: 5 });
    expect(model.canEdit).toBe(false);
  });

  it('reads an older version as converted by the server, and writes the current one at the first edit', async () => {
    const older = '{"name": "digits", "kind": "local", "jobs": {"worker": 3}}';
    const design = emptyDesign();
    design.cluster = { ...design.cluster, name: 'digits', jobs: { worker: 3 } };
    const { text, model } = open(older, () => report({ text: writeDesign(design) }));
    expect(model.canEdit).toBe(false);
    await settle();
    expect(model.design).toEqual(design);
    expect(text.sharedModel.getSource()).toBe(older);
    model.edit('Name', draft => {
      draft.cluster.name = 'other';
    });
    expect(text.sharedModel.getSource()).toBe(writeDesign(model.design));
    model.undo();
    expect(text.sharedModel.getSource()).toBe(older);
    await settle();
    expect(model.design).toEqual(design);
  });

  it('reports when the server cannot be reached', async () => {
    const { model, checkDesign } = open();
    checkDesign.mockRejectedValueOnce(new Error('502 Bad Gateway'));
    await settle();
    expect(model.checkFailure).toBe('502 Bad Gateway');
  });

  it('does not follow the text after it is disposed', async () => {
    const { text, model, checkDesign } = open();
    model.dispose();
    text.sharedModel.setSource('{}');
    await settle();
    expect(checkDesign).not.toHaveBeenCalled();
  });
});
