import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { INotebookTracker, Notebook, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { connectCode, hasImport } from '../model/code';
import { CommandIDs, IDtf } from '../tokens';
import { choose, describe } from './ask';

/** Connects notebooks to clusters: puts the lines of code that do it into them. */
export const notebook: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:notebook',
  description: 'Connects a notebook to a cluster.',
  autoStart: true,
  requires: [IDtf, INotebookTracker],
  optional: [ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    dtf: IDtf,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    app.commands.addCommand(CommandIDs.connectNotebook, {
      label: trans.__('Connect Notebook to Cluster'),
      caption: trans.__('Insert the code that gives the notebook a cluster'),
      describedBy: describe({ name: trans.__('The name of the cluster') }),
      execute: async args => {
        const panel = tracker.currentWidget;
        if (!panel) {
          Notification.warning(trans.__('Open a notebook first: the code that connects it is put there.'), {
            autoClose: 5000
          });
          return;
        }
        const name = await choose(
          args['name'],
          dtf.clusters.clusters
            .filter(({ state }) => state === 'running' || state === 'starting')
            .map(cluster => ({ value: cluster.name, label: cluster.name })),
          trans.__('Connect to which cluster?'),
          trans.__('No cluster is running. Start one in the panel.')
        );
        if (name !== null) {
          insert(panel, name);
          app.shell.activateById(panel.id);
        }
      }
    });
    palette?.addItem({ command: CommandIDs.connectNotebook, category: trans.__('Distributed TensorFlow') });
  }
};

/** What the cells of code say. */
export function codeOf(notebook: Notebook): string[] {
  return notebook.widgets.filter(cell => cell.model.type === 'code').map(cell => cell.model.sharedModel.getSource());
}

/** Put the code into the active cell if that is empty, else into a new one below it, and select it. */
function insert(panel: NotebookPanel, name: string): void {
  const { content } = panel;
  const imported = codeOf(content).some(hasImport);
  const active = content.activeCell;
  if (!active || active.model.type !== 'code' || active.model.sharedModel.getSource().trim() !== '') {
    NotebookActions.insertBelow(content);
  }
  content.activeCell?.model.sharedModel.setSource(connectCode(name, !imported));
  content.mode = 'edit';
  content.activeCell?.editor?.focus();
}
