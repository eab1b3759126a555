import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { DocumentRegistry } from '@jupyterlab/docregistry';
import { TabPanel, Widget } from '@lumino/widgets';

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
    widget.addClass('jp-dtf-below'); // which gives it a height: the shell takes the least that it can have
    shell.add(widget, 'down', options);
  }
}

/** Bring a widget to the front, in the area below as well, where the shell leaves the tab as it is. */
export function activate(shell: JupyterFrontEnd.IShell, widget: Widget): void {
  shell.activateById(widget.id);
  const tabs = widget.parent?.parent;
  if (tabs instanceof TabPanel) {
    tabs.currentWidget = widget;
  }
}
