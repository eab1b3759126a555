import { waitFor } from '@testing-library/react';
import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { beforeEach, expect, it, vi } from 'vitest';

import type { RunPatch } from '../../../src/api/schema';
import { askLines } from '../../../src/plugins/multilinedialog';
import { RunEdits } from '../../../src/plugins/runedits';
import { runInfo } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');
const marks = runInfo('x').marks;
const RUNS = [runInfo('a'), runInfo('old', { marks: { ...marks, archived: true } }), runInfo('fails'), runInfo('b')];

beforeEach(() => Notification.dismiss());

function page() {
  const patch = vi.fn((id: string, _: RunPatch) =>
    id === 'fails' ? Promise.reject(new Error('no')) : Promise.resolve()
  );
  const edits = new RunEdits({ get: id => RUNS.find(run => run.id === id), patch }, trans);
  const said = () => Notification.manager.notifications.map(each => each.message);
  return { edits, patch, said };
}

it('undoes its own changes and nothing else', async () => {
  const { edits, patch, said } = page();
  await edits.archive(['a', 'old', 'fails', 'b'], true);
  expect(patch.mock.calls.map(([id]) => id)).toEqual(['a', 'fails', 'b']);
  expect(said().sort()).toEqual(['2 runs archived', 'no']);
  patch.mockClear();
  const shown = Notification.manager.notifications.find(each => each.message === '2 runs archived')!;
  shown.options.actions![0]!.callback(new MouseEvent('click'));
  await waitFor(() => expect(patch.mock.calls).toEqual(['a', 'b'].map(id => [id, { archived: false }])));
});

it('reports no success for edits that failed', async () => {
  const { edits, said } = page();
  await edits.remove(['fails']);
  await edits.archive(['old'], true);
  expect(said()).toEqual(['no']);
});

it('keeps the lines of a text, and Enter starts a new line', async () => {
  const asked = askLines(trans, 'Note', 'one\ntwo');
  const found = () => document.querySelector<HTMLTextAreaElement>('.jp-Dialog textarea');
  await waitFor(() => expect(found()).not.toBeNull());
  const area = found()!;
  const enter = new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true });
  area.dispatchEvent(enter);
  expect(enter.defaultPrevented).toBe(false);
  area.value += '\nthree';
  document.querySelector<HTMLButtonElement>('.jp-Dialog .jp-mod-accept')!.click();
  expect(await asked).toBe('one\ntwo\nthree');
});
