import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Widget } from '@lumino/widgets';

/**
 * Add a widget to the main area, or below it where that has room for one alone: in Notebook 7 it is the notebook's, and what
 * comes later is left out without a word.
 */
export function addToMain(
  shell: JupyterFrontEnd.IShell,
  widget: Widget,
  options: DocumentRegistry.IOpenOptions = {}
): void {
  shell.add(widget, 'main', options);
  if (!widget.parent) {
    shell.add(widget, 'down', options);
  }
}
