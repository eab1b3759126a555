import type { JupyterFrontEnd } from '@jupyterlab/application';
import { type DockLayout, TabPanel, type Widget } from '@lumino/widgets';

/**
 * Show a widget in the main area. That of Notebook 7 holds its one document, and takes no other without a word: there the
 * widget is below it.
 *
 * `mode`: where it goes if it is nowhere yet. `activate`: `false` leaves in front what is there.
 */
export function showInMain(
  shell: JupyterFrontEnd['shell'],
  widget: Widget,
  options: { mode?: unknown; activate?: unknown } = {}
): void {
  const { mode, activate } = options;
  if (!widget.isAttached) {
    shell.add(widget, 'main', mode === undefined ? {} : { mode: mode as DockLayout.InsertMode });
  }
  if (!widget.isAttached) {
    widget.addClass('jp-dtf-below'); // which gives it a height: the shell takes the least that it can have
    shell.add(widget, 'down');
  }
  if (activate !== false) {
    shell.activateById(widget.id);
    const tabs = widget.parent?.parent;
    if (tabs instanceof TabPanel) {
      tabs.currentWidget = widget; // Notebook 7 shows the area, not which of its widgets is meant
    }
  }
}
