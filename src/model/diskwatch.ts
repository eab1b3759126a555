import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

/** Checks on request whether a document's file has changed on disk. JupyterLab itself checks only when saving. */
export class DiskWatch implements IDisposable {
  constructor(
    private readonly _context: DocumentRegistry.Context,
    private readonly _contents: Contents.IManager
  ) {
    _context.saveState.connect(this._onSave, this);
  }

  /** Whether the file on disk differs from the version that was last read or written. */
  get hasChanged(): boolean {
    return this._hasChanged;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Check the file. A document without unsaved changes is reloaded; otherwise `hasChanged` is set. */
  async look(): Promise<void> {
    const { model, contentsModel, path } = this._context;
    if (!contentsModel || model.collaborative || this._isSaving || this._isLooking || this._isDisposed) {
      return;
    }
    this._isLooking = true;
    const saves = this._saves;
    try {
      const found = await this._contents.get(path, { content: false });
      if (this._isDisposed || saves !== this._saves || path !== this._context.path) {
        return; // the result is from before the save
      }
      const isOther = found.last_modified !== this._context.contentsModel?.last_modified;
      if (isOther && !model.dirty) {
        await this._context.revert();
        this._set(false);
      } else {
        this._set(isOther);
      }
    } catch {
      // The server or the file is gone: JupyterLab reports that on saving.
    } finally {
      this._isLooking = false;
    }
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._context.saveState.disconnect(this._onSave, this);
    Signal.clearData(this);
  }

  private _onSave(_: unknown, state: DocumentRegistry.SaveState): void {
    this._isSaving = state === 'started';
    this._saves++;
    if (state !== 'started' && state !== 'failed') {
      this._set(false);
    }
  }

  private _set(hasChanged: boolean): void {
    if (hasChanged !== this._hasChanged) {
      this._hasChanged = hasChanged;
      this._changed.emit();
    }
  }

  private _hasChanged = false;
  private _isSaving = false;
  private _saves = 0;
  private _isLooking = false;
  private _isDisposed = false;
  private readonly _changed = new Signal<this, void>(this);
}
