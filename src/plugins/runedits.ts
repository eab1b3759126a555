import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { RunInfo, RunPatch } from '../api/schema';
import type { IDtf } from '../tokens';
import { attempt } from './commandhelpers';

const UNDO_MS = 15_000;

/** The user's edits of runs, made one run after another; they can be undone. */
export class RunEdits {
  constructor(
    private readonly _runs: Pick<IDtf['runs'], 'get' | 'patch'>,
    private readonly _trans: TranslationBundle
  ) {}

  /** Apply a patch. Resolves with the runs that were changed; the user is notified why others were not. */
  async apply(ids: readonly string[], patch: RunPatch): Promise<string[]> {
    const changed: string[] = [];
    for (const id of ids) {
      const done = await attempt(this._trans, async () => {
        await this._runs.patch(id, patch);
        return true;
      });
      if (done) {
        changed.push(id);
      }
    }
    return changed;
  }

  /** Archive or unarchive runs. Runs that are already in that state are not changed. */
  archive(ids: readonly string[], archived: boolean): Promise<void> {
    const others = ids.filter(id => this._runs.get(id)?.marks.archived !== archived);
    return this._undoable(others, { archived }, { archived: !archived }, name =>
      archived ? this._trans.__('%1 archived', name) : this._trans.__('%1 is no longer archived', name)
    );
  }

  /** Delete runs. */
  remove(ids: readonly string[]): Promise<void> {
    return this._undoable(ids, { deleted: true }, { deleted: false }, name => this._trans.__('%1 deleted', name));
  }

  /** Apply a patch and offer to undo it for the runs that it has changed. */
  private async _undoable(
    ids: readonly string[],
    patch: RunPatch,
    undo: RunPatch,
    text: (name: string) => string
  ): Promise<void> {
    const before = new Map(ids.map((id): [string, RunInfo | undefined] => [id, this._runs.get(id)]));
    const changed = await this.apply(ids, patch);
    if (changed.length === 0) {
      return;
    }
    const first = changed[0]!;
    const name = changed.length === 1 ? (before.get(first)?.name ?? first) : this._trans.__('%1 runs', changed.length);
    Notification.info(text(name), {
      autoClose: UNDO_MS,
      actions: [{ label: this._trans.__('Undo'), callback: () => void this.apply(changed, undo) }]
    });
  }
}
