import type { CodeEditor } from '@jupyterlab/codeeditor';
import type { DocumentRegistry } from '@jupyterlab/docregistry';

/** The part of Yjs's undo manager that documents use here. */
export interface UndoManager {
  readonly undoStack: readonly { readonly meta: Map<string, unknown> }[];
  readonly redoStack: readonly { readonly meta: Map<string, unknown> }[];
  stopCapturing(): void;
  on(event: 'stack-cleared', handler: () => void): void;
  off(event: 'stack-cleared', handler: () => void): void;
}

/** The undo manager of a text document, which is missing from JupyterLab's types. */
export function undoManagerOf(text: DocumentRegistry.ICodeModel): UndoManager | undefined {
  return (text.sharedModel as CodeEditor.IModel['sharedModel'] & { undoManager?: UndoManager }).undoManager;
}
