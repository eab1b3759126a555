import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import type { RunsDashboard } from '../api/schema';
import { change } from './designtext';
import { DashboardError, emptyDashboard, readDashboard, writeDashboard } from './runsdashboardtext';
import { UndoManager, undoManagerOf } from './undomanager';

/**
 * A `.dtfplots` document: the dashboard in the text of a text document's model. The text is the single source of truth:
 * it is parsed again whenever it changes, and changes are written into it; an invalid text is never overwritten.
 */
export class RunsDashboardModel implements IDisposable {
  /**
   * `isReadOnly` returns whether the file is read-only, which is known only after it has been read; `nameOf` returns
   * the current name of a run, or undefined if there is no such run.
   */
  constructor(
    private readonly _text: DocumentRegistry.ICodeModel,
    private readonly _nameOf: (run: string) => string | undefined,
    private readonly _isReadOnly: () => boolean = () => false
  ) {
    _text.contentChanged.connect(this._read, this);
    this._undoing?.on('stack-cleared', this._onCleared); // loading the document cannot be undone
    this._read();
  }

  /** The dashboard; while the text is invalid, the last valid one. It must not be changed in place. */
  get dashboard(): Readonly<RunsDashboard> {
    return this._dashboard;
  }

  /** Why the text is not a valid dashboard, and where; null if it is valid. */
  get error(): DashboardError | null {
    return this._error;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether `edit` has any effect. */
  get canEdit(): boolean {
    return !this._text.readOnly && !this._isReadOnly() && this._error === null;
  }

  get canUndo(): boolean {
    return !this._text.readOnly && !this._isReadOnly() && this._text.sharedModel.canUndo();
  }

  undo(): void {
    if (this.canUndo) {
      this._text.sharedModel.undo();
    }
  }

  /** Change a copy and write it, with the runs' current names. Does nothing if the document cannot be edited. */
  edit(recipe: (draft: RunsDashboard) => void): void {
    if (!this.canEdit) {
      return;
    }
    const draft = structuredClone<RunsDashboard>(this._dashboard);
    recipe(draft);
    draft.runs.forEach(run => (run.name = this._nameOf(run.id) ?? run.name));
    const part = change(this._text.sharedModel.getSource(), writeDashboard(draft));
    if (part !== null) {
      this._text.sharedModel.updateSource(part.start, part.end, part.text);
    }
  }

  /** Move a plot by this many positions. */
  movePlot(metric: string, by: number): void {
    this.edit(({ plots }) => {
      const from = plots.findIndex(plot => plot.metric === metric);
      const to = from + by;
      if (from >= 0 && to >= 0 && to < plots.length) {
        plots.splice(to, 0, ...plots.splice(from, 1));
      }
    });
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      this._text.contentChanged.disconnect(this._read, this);
      this._undoing?.off('stack-cleared', this._onCleared);
      Signal.clearData(this);
    }
  }

  private get _undoing(): UndoManager | undefined {
    return undoManagerOf(this._text);
  }

  private _read(): void {
    try {
      this._dashboard = readDashboard(this._text.sharedModel.getSource());
      this._error = null;
    } catch (error) {
      if (!(error instanceof DashboardError)) {
        throw error;
      }
      this._error = error;
    }
    this._changed.emit();
  }

  private readonly _onCleared = () => this._changed.emit();
  private _dashboard: RunsDashboard = emptyDashboard();
  private _error: DashboardError | null = null;
  private _isDisposed = false;
  private readonly _changed = new Signal<this, void>(this);
}
