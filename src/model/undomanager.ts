import type { CodeEditor } from '@jupyterlab/codeeditor';
import type { DocumentRegistry } from '@jupyterlab/docregistry';

/** Yjs's undo manager, as far as documents need it here. */
export interface UndoManager {
  readonly undoStack: readonly { readonly meta: Map<string, unknown> }[];
  readonly redoStack: readonly { readonly meta: Map<string, unknown> }[];
  stopCapturing(): void;
  on(event: 'stack-cleared', handler: () => void): void;
  off(event: 'stack-cleared', handler: () => void): void;
}

/** That of a text document, which JupyterLab's types do not tell of. */
export function undoManagerOf(text: DocumentRegistry.ICodeModel): UndoManager | undefined {
  return (text.sharedModel as CodeEditor.IModel['sharedModel'] & { undoManager?: UndoManager }).undoManager;
}
