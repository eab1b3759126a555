import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { CommandIDs, IDtf, INotebookClusters } from '../tokens';
import { NotebookStatusItem } from '../widgets/notebookstatusitem';

/** The notebook's cluster and its run in the status bar, if the application has one. */
export const statusBar: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:status-bar',
  description: "Shows the notebook's cluster and its run in the status bar.",
  autoStart: true,
  requires: [IDtf],
  // Most pages of Notebook 7 have no status bar: there, a missing required token would be an error.
  optional: [IStatusBar, INotebookClusters, ITranslator],
  activate: (
    { commands }: JupyterFrontEnd,
    dtf: IDtf,
    bar: IStatusBar | null,
    notebooks: INotebookClusters | null,
    translator: ITranslator | null
  ): void => {
    if (!bar) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const item = new NotebookStatusItem(dtf, notebooks, trans, {
      showPanel: () => void commands.execute(CommandIDs.showPanel),
      openRun: run => void commands.execute(CommandIDs.openRun, { run })
    });
    bar.registerStatusItem(statusBar.id, {
      item,
      align: 'left',
      rank: 5, // after the kernel's item
      isActive: () => item.isActive,
      activeStateChanged: item.activeChanged
    });
  }
};
