import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { describe, expect, it, vi } from 'vitest';

import { DiskWatch } from '../../../src/model/diskwatch';

/** Returns a watched document, whose file changes when the time in `disk` is set. */
function watched(change: { dirty?: boolean; collaborative?: boolean } = {}) {
  const disk = { time: '1' };
  const owner = {};
  const saveState = new Signal<object, DocumentRegistry.SaveState>(owner);
  const context = {
    path: 'a.dtf',
    model: { dirty: false, collaborative: false, ...change },
    contentsModel: { last_modified: '1' },
    saveState,
    revert: vi.fn(() => {
      context.contentsModel = { last_modified: disk.time };
      return Promise.resolve();
    })
  };
  const get = vi.fn(() => Promise.resolve({ last_modified: disk.time }));
  const watch = new DiskWatch(context as unknown as DocumentRegistry.Context, { get } as unknown as Contents.IManager);
  const save = (time: string) => {
    saveState.emit('started');
    disk.time = time;
    context.contentsModel = { last_modified: time };
    saveState.emit('completed');
  };
  return { watch, context, disk, get, save };
}

describe('DiskWatch', () => {
  it('reloads a document without unsaved changes', async () => {
    const { watch, context, disk } = watched();
    await watch.look();
    expect(context.revert).not.toHaveBeenCalled();
    disk.time = '2';
    await watch.look();
    expect(context.revert).toHaveBeenCalledOnce();
    expect(watch.hasChanged).toBe(false);
  });

  it('reports a change of a document with unsaved changes, until it is saved', async () => {
    const { watch, context, disk, save } = watched({ dirty: true });
    const changed = vi.fn();
    watch.changed.connect(changed);
    disk.time = '2';
    await watch.look();
    await watch.look();
    expect(watch.hasChanged).toBe(true);
    expect(changed).toHaveBeenCalledOnce();
    expect(context.revert).not.toHaveBeenCalled();
    save('3');
    expect(watch.hasChanged).toBe(false);
  });

  it('does not take a save for a change', async () => {
    const { watch, context, get, save } = watched();
    get.mockImplementationOnce(() => {
      save('2');
      return Promise.resolve({ last_modified: '1' });
    });
    await watch.look();
    expect(context.revert).not.toHaveBeenCalled();
    expect(watch.hasChanged).toBe(false);
  });

  it('leaves shared documents to the server, and ignores a server that does not respond', async () => {
    const shared = watched({ collaborative: true });
    await shared.watch.look();
    expect(shared.get).not.toHaveBeenCalled();
    const { watch, get } = watched();
    get.mockRejectedValueOnce(new Error('gone'));
    await watch.look();
    expect(watch.hasChanged).toBe(false);
    watch.dispose();
    await watch.look();
    expect(get).toHaveBeenCalledOnce();
  });
});
