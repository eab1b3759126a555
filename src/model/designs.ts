import type { Contents } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { DESIGN_SUFFIX } from '../api/schema';

/** The parts of a file browser's folder that are used here. */
export interface FolderModel {
  readonly path: string;
  items(): Iterable<Contents.IModel>;
  readonly refreshed: ISignal<unknown, void>;
}

/** The designs in the folder that the file browser shows: their paths, sorted by name. */
export class DesignsModel implements IDisposable {
  constructor(private readonly _folder: FolderModel) {
    _folder.refreshed.connect(this._read, this);
    this._read();
  }

  get paths(): readonly string[] {
    return this._paths;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._folder.refreshed.disconnect(this._read, this);
    Signal.clearData(this);
  }

  private _read(): void {
    const paths = [...this._folder.items()]
      .filter(({ type, name }) => type !== 'directory' && name.endsWith(DESIGN_SUFFIX))
      .map(({ path }) => path)
      .sort((a, b) => a.localeCompare(b));
    if (paths.join('\n') !== this._paths.join('\n')) {
      this._paths = paths;
      this._changed.emit();
    }
  }

  private _paths: readonly string[] = [];
  private _isDisposed = false;
  private readonly _changed = new Signal<this, void>(this);
}
