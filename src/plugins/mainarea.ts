import type { JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget } from '@jupyterlab/apputils';
import type { LabIcon } from '@jupyterlab/ui-components';
import type { ISignal } from '@lumino/signaling';
import { type DockLayout, TabPanel, type Widget } from '@lumino/widgets';

/** How a widget is presented in the main area. */
export interface MainWidgetOptions {
  id: string;
  icon: LabIcon;
  title: () => { label: string; caption?: string };
  /** Signals that the title may have changed. */
  changed?: ISignal<unknown, unknown>;
}

/** A widget for the main area whose title stays up to date, and whose content has a toolbar of its own. */
export function mainWidget<T extends Widget>(content: T, options: MainWidgetOptions): MainAreaWidget<T> {
  const { id, icon, title, changed } = options;
  const widget = new MainAreaWidget({ content });
  widget.toolbar.hide();
  widget.id = id;
  widget.title.icon = icon;
  const name = () => void Object.assign(widget.title, title());
  name();
  changed?.connect(name);
  widget.disposed.connect(() => changed?.disconnect(name));
  return widget;
}

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
