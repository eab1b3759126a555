import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import type { ICell } from '@jupyterlab/nbformat';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { MimeData } from '@lumino/coreutils';
import { Drag } from '@lumino/dragdrop';
import { Menu } from '@lumino/widgets';

import { dtfIcon } from '../icons';
import { connectCode } from '../model/notebookcode';
import { DesignsModel } from '../model/designs';
import { CommandIDs, IDtf, INotebookClusters } from '../tokens';
import { DtfPanel, PanelActions } from '../widgets/sidepanel';
import { describe } from './commandhelpers';
import { MARKING } from './runhistory';
import { openResumeMenu, RUN_COMMANDS } from './resumecommands';

const CELLS_MIME = 'application/vnd.jupyter.cells';

/** The side panel. */
export const panel: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:panel',
  description: 'The side panel with clusters, runs and designs.',
  autoStart: true,
  requires: [IDtf],
  optional: [INotebookClusters, ILayoutRestorer, ICommandPalette, IDefaultFileBrowser, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    dtf: IDtf,
    notebooks: INotebookClusters | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    browser: IDefaultFileBrowser | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const { commands, shell } = app;

    const openMenu = (items: { command: string; args: Record<string, string> }[], at: HTMLElement) => {
      const menu = new Menu({ commands });
      items.forEach(item => menu.addItem(item));
      const { left, bottom } = at.getBoundingClientRect();
      menu.open(left, bottom);
    };
    const run = (command: string, args: Record<string, string> = {}) => void commands.execute(command, args);
    const actions: PanelActions = {
      newCluster: () => run(CommandIDs.newCluster),
      refresh: () => run(CommandIDs.refresh),
      more: at =>
        openMenu(
          [
            CommandIDs.startCluster,
            CommandIDs.newCluster,
            CommandIDs.newDesign,
            CommandIDs.openExample,
            CommandIDs.openHistory,
            CommandIDs.refresh
          ].map(command => ({ command, args: { isPalette: 'yes' } })),
          at
        ),
      startTwo: () => run(CommandIDs.startCluster),
      openExample: () => run(CommandIDs.openExample),
      connect: name => run(CommandIDs.connectNotebook, { name }),
      disconnect: () => run(CommandIDs.disconnectNotebook),
      scale: name => run(CommandIDs.scaleCluster, { name }),
      stop: name => run(CommandIDs.stopCluster, { name }),
      menu: (name, at) =>
        openMenu(
          [
            CommandIDs.scaleCluster,
            CommandIDs.stopCluster,
            CommandIDs.daskDashboard,
            CommandIDs.copyClusterSpec,
            CommandIDs.copyClusterName,
            CommandIDs.keepTemplate,
            CommandIDs.saveDesign
          ].map(command => ({ command, args: { name } })),
          at
        ),
      drag: (name, { clientX, clientY }) => dragCell(connectCode(name), name, clientX, clientY),
      startTemplate: name => run(CommandIDs.startTemplate, { name }),
      templateMenu: (name, at) =>
        openMenu(
          [CommandIDs.startTemplate, CommandIDs.forgetTemplate].map(command => ({ command, args: { name } })),
          at
        ),
      openSearch: id => run(CommandIDs.openSearch, { search: id }),
      openRun: id => run(CommandIDs.openRun, { run: id }),
      stopRun: id => run(CommandIDs.stopRun, { run: id }),
      continueRun: id => run(CommandIDs.continueRun, { run: id }),
      resumeRun: (id, at) => openResumeMenu(commands, dtf, id, at),
      runMenu: (id, at) =>
        openMenu(
          [...RUN_COMMANDS, ...MARKING, CommandIDs.copyRunId].map(command => ({
            command,
            args: { run: id }
          })),
          at
        ),
      newDesign: () => run(CommandIDs.newDesign),
      openDesign: path => run('docmanager:open', { path }),
      startDesign: path => run(CommandIDs.startDesign, { path })
    };

    const designs = browser ? new DesignsModel(browser.model) : null;
    const widget = new DtfPanel(dtf, actions, notebooks, designs, trans);
    widget.id = 'jupyter-dtf-panel';
    widget.title.icon = dtfIcon;
    widget.title.caption = trans.__('Distributed TensorFlow');
    widget.node.setAttribute('role', 'region');
    widget.node.setAttribute('aria-label', trans.__('Distributed TensorFlow'));
    shell.add(widget, 'left', { rank: 550 });
    restorer?.add(widget, widget.id);

    commands.addCommand(CommandIDs.showPanel, {
      label: trans.__('Show Clusters and Runs'),
      describedBy: describe({}),
      execute: () => shell.activateById(widget.id)
    });
    palette?.addItem({ command: CommandIDs.showPanel, category: trans.__('Distributed TensorFlow') });
  }
};

/** Drag a new code cell; a notebook inserts it where it is dropped. */
function dragCell(source: string, name: string, clientX: number, clientY: number): void {
  const cell: ICell = { cell_type: 'code', source, metadata: {}, outputs: [], execution_count: null };
  const mimeData = new MimeData();
  mimeData.setData(CELLS_MIME, [cell]);
  mimeData.setData('text/plain', source);
  const image = document.createElement('div');
  image.className = 'jp-dtf-drag';
  image.textContent = `cluster = dtf.cluster("${name}")`;
  const drag = new Drag({ mimeData, dragImage: image, supportedActions: 'copy', proposedAction: 'copy' });
  void drag.start(clientX, clientY).then(() => drag.dispose());
}
