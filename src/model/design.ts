import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import type { RestApi } from '../api/rest';
import type { Design, DesignReport } from '../api/schema';
import { Change, change, DesignError, draftOf, emptyDesign, OlderDesign, readDesign, writeDesign } from './designtext';
import { messageOf } from './errormessage';
import { UndoManager, undoManagerOf } from './undomanager';

const CHECK_DELAY_MS = 250;
const LABEL = 'jupyter-dtf:label';

type SharedText = DocumentRegistry.ICodeModel['sharedModel'];

/** The part of the REST API that checking a design needs. */
export type DesignChecker = Pick<RestApi, 'checkDesign'>;

/**
 * A `.dtf` document: the design in the text of a text document's model.
 *
 * The text is the single source of truth. Undo, redo, saving, multiple views and collaborators' edits all act on the
 * text; this class parses it again whenever it changes, and writes changes into it.
 */
export class DesignModel implements IDisposable {
  /** `isReadOnly` returns whether the file is read-only, which is known only after it has been read. */
  constructor(
    private readonly _text: DocumentRegistry.ICodeModel,
    private readonly _api: DesignChecker,
    private readonly _isReadOnly: () => boolean = () => false
  ) {
    _text.contentChanged.connect(this._read, this);
    this._undoing?.on('stack-cleared', this._onCleared); // loading the document cannot be undone
    this._read();
  }

  /** The design; while the text is invalid, the last valid one. It must not be changed in place. */
  get design(): Readonly<Design> {
    return this._design;
  }

  /**
   * Why the text is not a valid design, and where; null if it is valid. An OlderDesign until the server has converted
   * it.
   */
  get error(): DesignError | null {
    return this._error;
  }

  /** Emitted when the design, the error, or the steps that can be undone have changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The server's report on the design; while the design is being checked, the report on an earlier one. */
  get report(): DesignReport | null {
    return this._report;
  }

  get reportChanged(): ISignal<this, void> {
    return this._reportChanged;
  }

  /** A message that explains why the server could not be reached. */
  get checkFailure(): string {
    return this._checkFailure;
  }

  get readOnly(): boolean {
    return this._text.readOnly || this._isReadOnly();
  }

  /** Whether `edit` has any effect. */
  get canEdit(): boolean {
    return !this.readOnly && this._error === null;
  }

  /**
   * Change a copy of the design and write it as a single undoable step. `label` names the step ("Place worker:1"). The
   * model's graph is not copied: a recipe may replace it but must not modify it. Does nothing if the document cannot be
   * edited or the recipe changes nothing.
   */
  edit(label: string, recipe: (draft: Design) => void): void {
    this._write(recipe, (text, part) => {
      this._undoing?.stopCapturing(); // otherwise edits within half a second would be merged into one step
      text.updateSource(part.start, part.end, part.text);
      this._undoing?.undoStack.at(-1)?.meta.set(LABEL, label);
    });
  }

  /** Like `edit`, but for the state of the drawing, such as which blocks are folded. Undo does not affect it. */
  keep(recipe: (draft: Design) => void): void {
    this._write(recipe, (text, part) => {
      text.transact(() => text.updateSource(part.start, part.end, part.text), false);
    });
  }

  get canUndo(): boolean {
    return !this.readOnly && this._text.sharedModel.canUndo();
  }

  get canRedo(): boolean {
    return !this.readOnly && this._text.sharedModel.canRedo();
  }

  /** The label of the step that `undo` reverts; empty if unknown. */
  get undoLabel(): string {
    return labelOf(this._undoing?.undoStack);
  }

  get redoLabel(): string {
    return labelOf(this._undoing?.redoStack);
  }

  undo(): void {
    const label = this.undoLabel;
    if (this.canUndo) {
      this._text.sharedModel.undo();
      this._undoing?.redoStack.at(-1)?.meta.set(LABEL, label);
    }
  }

  redo(): void {
    const label = this.redoLabel;
    if (this.canRedo) {
      this._text.sharedModel.redo();
      this._undoing?.undoStack.at(-1)?.meta.set(LABEL, label);
    }
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    clearTimeout(this._timer);
    this._text.contentChanged.disconnect(this._read, this);
    this._undoing?.off('stack-cleared', this._onCleared);
    Signal.clearData(this);
  }

  private get _undoing(): UndoManager | undefined {
    return undoManagerOf(this._text);
  }

  private _write(recipe: (draft: Design) => void, apply: (text: SharedText, part: Change) => void): void {
    if (!this.canEdit) {
      return;
    }
    const draft = draftOf(this._design);
    recipe(draft);
    const text = this._text.sharedModel;
    const part = change(text.getSource(), writeDesign(draft));
    if (part !== null) {
      apply(text, part);
    }
  }

  private _read(): void {
    const source = this._text.sharedModel.getSource();
    try {
      // A document that is being loaded, and a file created by "New File", are empty.
      this._design = source.trim() === '' ? emptyDesign() : readDesign(source, this._design);
      this._error = null;
    } catch (error) {
      if (!(error instanceof DesignError)) {
        throw error;
      }
      this._error = error;
    }
    this._changed.emit();
    clearTimeout(this._timer);
    if (this._error === null || this._error instanceof OlderDesign) {
      this._timer = setTimeout(() => void this._check(), CHECK_DELAY_MS);
    }
  }

  private async _check(): Promise<void> {
    const source = this._text.sharedModel.getSource();
    const isCurrent = () => !this._isDisposed && source === this._text.sharedModel.getSource();
    try {
      const report = await this._api.checkDesign(source.trim() === '' ? writeDesign(this._design) : source);
      if (!isCurrent()) {
        return; // it will be checked again
      }
      this._report = report;
      this._checkFailure = '';
      this._judge(report);
    } catch (error) {
      if (!isCurrent()) {
        return;
      }
      this._checkFailure = messageOf(error);
    }
    this._reportChanged.emit();
  }

  /**
   * Adopt a design of an older version as converted by the server, and reject a design whose errors only the server can
   * detect.
   */
  private _judge(report: DesignReport): void {
    const problem = report.problems.find(({ line }) => line > 0);
    if (problem) {
      // For example duplicate keys: the first edit would drop them.
      this._error = new DesignError(problem.message, problem.line, problem.column);
      this._changed.emit();
    } else if (this._error instanceof OlderDesign && report.text !== '') {
      this._design = readDesign(report.text, this._design);
      this._error = null;
      this._changed.emit();
    }
  }

  private readonly _onCleared = () => this._changed.emit();
  private _design: Design = emptyDesign();
  private _error: DesignError | null = null;
  private _report: DesignReport | null = null;
  private _checkFailure = '';
  private _isDisposed = false;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _reportChanged = new Signal<this, void>(this);
}

function labelOf(stack: UndoManager['undoStack'] | undefined): string {
  const label = stack?.at(-1)?.meta.get(LABEL);
  return typeof label === 'string' ? label : '';
}
