import type { JupyterFrontEnd } from '@jupyterlab/application';
import { type DockLayout, TabPanel, type Widget } from '@lumino/widgets';

/**
 * Show a widget in the main area. In Notebook 7 that area holds a single document and silently rejects others: there,
 * the widget is placed below it.
 *
 * `mode`: its position if it is not open yet. `activate`: `false` leaves the current widget in front.
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
    widget.addClass('jp-dtf-below'); // gives it a height: the shell would otherwise shrink it to the minimum
    shell.add(widget, 'down');
  }
  if (activate !== false) {
    shell.activateById(widget.id);
    const tabs = widget.parent?.parent;
    if (tabs instanceof TabPanel) {
      tabs.currentWidget = widget; // Notebook 7 shows the area but does not select the widget
    }
  }
}
