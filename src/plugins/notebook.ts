import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { INotebookTracker, Notebook, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { MenuSvg } from '@jupyterlab/ui-components';

import type { ClusterInfo } from '../api/schema';
import { NOTEBOOK_CODE, hasNotebookCode } from '../model/notebookcode';
import { formatJobs } from '../model/format';
import { NotebookClusters } from '../model/notebookclusters';
import { runOn } from '../model/notebookstatus';
import { CommandIDs, IDtf, INotebookClusters } from '../tokens';
import { NotebookClusterTool } from '../widgets/notebookclustertool';
import { attempt, choose, describe } from './commandhelpers';

/** The cluster of a notebook: stored with it, shown in its toolbar, and available to its code. */
export const notebook: JupyterFrontEndPlugin<INotebookClusters> = {
  id: 'jupyter_dtf:notebook',
  description: "Keeps a notebook's cluster, and shows it in the notebook's toolbar.",
  autoStart: true,
  provides: INotebookClusters,
  requires: [IDtf, INotebookTracker],
  optional: [ICommandPalette, IToolbarWidgetRegistry, IDefaultFileBrowser, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    dtf: IDtf,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    toolbars: IToolbarWidgetRegistry | null,
    browser: IDefaultFileBrowser | null,
    translator: ITranslator | null
  ): INotebookClusters => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const { commands, shell } = app;
    const chosen = new NotebookClusters(tracker);
    const current = () => chosen.current?.name ?? '';
    const usable = () => dtf.clusters.clusters.filter(({ state }) => state === 'running' || state === 'starting');

    /** Connect a cluster to the current notebook, or to a new one if none is open. */
    const connect = async (name: string) => {
      const panel = tracker.currentWidget ?? (await newNotebook(app, browser?.model.path ?? ''));
      if (panel) {
        chosen.of(panel).choose(name);
        shell.activateById(panel.id);
        if (!hasNotebookCode(codeOf(panel.content))) {
          insert(panel.content, NOTEBOOK_CODE);
        }
      }
    };

    commands.addCommand(CommandIDs.connectNotebook, {
      label: args => {
        const cluster = dtf.clusters.get((args['name'] as string | undefined) ?? '');
        return cluster ? trans.__('%1 (%2)', cluster.name, formatJobs(cluster.jobs)) : trans.__('Connect to Cluster…');
      },
      caption: trans.__("Use a cluster for the notebook's code and magics"),
      describedBy: describe({ name: trans.__('The name of the cluster') }),
      isToggleable: true,
      isToggled: args => args['name'] !== undefined && args['name'] === current(),
      execute: async args => {
        const name = await choose(
          args['name'],
          usable().map(cluster => ({ value: cluster.name, label: cluster.name })),
          trans.__('Connect to which cluster?'),
          trans.__('No cluster is running. Start one in the panel.')
        );
        if (name !== null) {
          await attempt(trans, () => connect(name));
        }
      }
    });
    commands.addCommand(CommandIDs.disconnectNotebook, {
      label: args => (args['isMenu'] ? trans.__('Disconnect') : trans.__('Disconnect from Cluster')),
      caption: trans.__('Disconnect the notebook; the cluster keeps running'),
      describedBy: { args: { type: 'object', properties: { isMenu: { type: 'boolean' } } } },
      isEnabled: () => current() !== '',
      execute: () => chosen.current?.choose('')
    });
    commands.addCommand(CommandIDs.startForNotebook, {
      label: args => (args['command'] === CommandIDs.newCluster ? trans.__('New Cluster…') : start(args['template'])),
      caption: trans.__('Start a cluster and connect the notebook to it'),
      describedBy: describe({
        command: trans.__('The command that starts it; two local workers if omitted'),
        template: trans.__('The name of the template to start')
      }),
      isEnabled: () => dtf.server.health === 'ok',
      execute: async args => {
        const command = (args['command'] as string | undefined) ?? CommandIDs.startCluster;
        const template = dtf.clusters.templates.find(({ name }) => name === args['template']);
        const started = (await (template
          ? attempt(trans, () => dtf.clusters.startTemplate(template))
          : commands.execute(command))) as ClusterInfo | null | undefined;
        if (started) {
          await attempt(trans, () => connect(started.name));
        }
      }
    });
    const currentRun = () => {
      const cluster = dtf.clusters.get(current());
      return cluster ? runOn(cluster, dtf.runs.current)?.run : undefined;
    };
    commands.addCommand(CommandIDs.openNotebookRun, {
      label: trans.__("Open Dashboard of the Notebook's Run"),
      caption: trans.__("The current run on the notebook's cluster, or the last one that ended there"),
      describedBy: describe({}),
      isEnabled: () => currentRun() !== undefined,
      execute: () => {
        const run = currentRun();
        return run ? commands.execute(CommandIDs.openRun, { run: run.id }) : undefined;
      }
    });
    const start = (template: unknown) =>
      typeof template === 'string' ? trans.__('Start %1', template) : trans.__('Start Two Local Workers');

    const openMenu = (at: HTMLElement) => {
      const menu = new MenuSvg({ commands });
      menu.addClass('jp-dtf-notebook-cluster-menu');
      for (const { name } of usable()) {
        menu.addItem({ command: CommandIDs.connectNotebook, args: { name } });
      }
      menu.addItem({ type: 'separator' });
      for (const { name } of dtf.clusters.idleTemplates) {
        menu.addItem({ command: CommandIDs.startForNotebook, args: { template: name } });
      }
      menu.addItem({ command: CommandIDs.startForNotebook });
      menu.addItem({ command: CommandIDs.startForNotebook, args: { command: CommandIDs.newCluster } });
      menu.addItem({ type: 'separator' });
      if (current() !== '') {
        menu.addItem({ command: CommandIDs.disconnectNotebook, args: { isMenu: true } });
        if (dtf.clusters.get(current())) {
          menu.addItem({ command: CommandIDs.stopCluster, args: { name: current(), isMenu: true } });
        }
      }
      menu.addItem({ command: CommandIDs.showPanel });
      const { left, bottom } = at.getBoundingClientRect();
      menu.open(left, bottom);
    };
    toolbars?.addFactory<NotebookPanel>('Notebook', 'dtfCluster', panel => {
      const open = (at: HTMLElement) => {
        shell.activateById(panel.id); // the menu applies to the current notebook
        openMenu(at);
      };
      return new NotebookClusterTool(chosen.of(panel), dtf.clusters, trans, open);
    });

    const category = trans.__('Distributed TensorFlow');
    palette?.addItem({ command: CommandIDs.connectNotebook, category });
    palette?.addItem({ command: CommandIDs.disconnectNotebook, category });
    palette?.addItem({ command: CommandIDs.openNotebookRun, category });
    chosen.changed.connect(() => commands.notifyCommandChanged(CommandIDs.disconnectNotebook));
    return chosen;
  }
};

/** The source of the code cells. */
function codeOf(notebook: Notebook, end = notebook.widgets.length): string[] {
  return notebook.widgets
    .slice(0, end)
    .filter(cell => cell.model.type === 'code')
    .map(cell => cell.model.sharedModel.getSource());
}

/**
 * The source of the code cells up to the active one: the code that runs before a cell below it if all run in order.
 */
export function codeAbove(notebook: Notebook): string[] {
  return codeOf(notebook, notebook.activeCellIndex + 1);
}

/** Put the code into the active cell if it is empty, otherwise into a new cell below it, and select it. */
function insert(notebook: Notebook, code: string): void {
  const active = notebook.activeCell;
  if (!active || active.model.type !== 'code' || active.model.sharedModel.getSource().trim() !== '') {
    NotebookActions.insertBelow(notebook);
  }
  notebook.activeCell?.model.sharedModel.setSource(code);
  notebook.mode = 'edit';
  notebook.activeCell?.editor?.focus();
}

/** A new notebook with a Python kernel, ready to be edited. */
async function newNotebook(app: JupyterFrontEnd, cwd: string): Promise<NotebookPanel | null> {
  const { kernelspecs } = app.serviceManager;
  await kernelspecs.ready;
  const specs = Object.values(kernelspecs.specs?.kernelspecs ?? {});
  const python = specs.filter(spec => spec?.language.toLowerCase() === 'python');
  const kernel = python.find(spec => spec?.name === kernelspecs.specs?.default) ?? python[0];
  const panel = (await app.commands.execute('notebook:create-new', {
    cwd,
    ...(kernel ? { kernelName: kernel.name } : {})
  })) as NotebookPanel | null | undefined;
  await panel?.context.ready;
  return panel ?? null;
}
