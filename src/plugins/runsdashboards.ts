import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IThemeManager, WidgetTracker } from '@jupyterlab/apputils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { RUNS_DASHBOARD_SUFFIX, type RunsDashboard } from '../api/schema';
import { runIcon } from '../icons';
import { emptyDashboard, readDashboard, writeDashboard } from '../model/runsdashboardtext';
import { CommandIDs, IDtf } from '../tokens';
import { RunsDashboardDocument, RunsDashboardFactory } from '../widgets/runsdashboarddocument';
import { attempt } from './commandhelpers';
import { openNewDocument } from './newdocument';
import { trackDocuments } from './trackeddocuments';

const FACTORY = 'Runs Dashboard';
const FILE_TYPE = 'dtf-runs-dashboard';

/** `.dtfplots` documents: selected plots of several runs. */
export const runsDashboards: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:runs-dashboards',
  description: 'Opens .dtfplots files: chosen plots over several runs.',
  autoStart: true,
  requires: [IDtf],
  optional: [ILayoutRestorer, ICommandPalette, ILauncher, IDefaultFileBrowser, IThemeManager, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    dtf: IDtf,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    browser: IDefaultFileBrowser | null,
    themes: IThemeManager | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const { commands, docRegistry } = app;
    const tracker = new WidgetTracker<RunsDashboardDocument>({ namespace: 'jupyter-dtf-runs-dashboards' });

    docRegistry.addFileType({
      name: FILE_TYPE,
      displayName: trans.__('Dashboard of TensorFlow Runs'),
      extensions: [RUNS_DASHBOARD_SUFFIX],
      mimeTypes: ['application/json'],
      contentType: 'file',
      fileFormat: 'text',
      icon: runIcon
    });
    const factory = new RunsDashboardFactory(
      {
        name: FACTORY,
        label: trans.__('Dashboard of Runs'),
        modelName: 'text',
        fileTypes: [FILE_TYPE],
        defaultFor: [FILE_TYPE],
        ...(translator ? { translator } : {})
      },
      {
        dtf,
        trans,
        themeChanged: themes?.themeChanged ?? null,
        openRun: run => void commands.execute(CommandIDs.openRun, { run }),
        openText: path => void commands.execute('docmanager:open', { path, factory: 'Editor' })
      }
    );
    trackDocuments(docRegistry, factory, tracker, runIcon, restorer);

    commands.addCommand(CommandIDs.newRunsDashboard, {
      label: args => {
        if (args['isContextMenu']) {
          return trans.__('New Dashboard of Runs');
        }
        return args['isPalette'] ? trans.__('New Dashboard of Runs') : trans.__('Dashboard of Runs');
      },
      caption: trans.__('Chosen plots of several runs, saved as a file'),
      icon: args => (args['isPalette'] ? undefined : runIcon),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            cwd: { type: 'string', description: trans.__('The folder of the new file') },
            dashboard: { type: 'object', description: trans.__('Its contents, as in a .dtfplots file') },
            isPalette: { type: 'boolean' },
            isContextMenu: { type: 'boolean' }
          }
        }
      },
      execute: args =>
        attempt(trans, () => {
          const given = args['dashboard'];
          const dashboard: RunsDashboard = given ? readDashboard(JSON.stringify(given)) : emptyDashboard();
          return openNewDocument(app, {
            text: writeDashboard(dashboard),
            folder: (args['cwd'] as string | undefined) ?? browser?.model.path ?? '',
            stem: '',
            suffix: RUNS_DASHBOARD_SUFFIX,
            factory: FACTORY
          });
        })
    });
    const category = trans.__('Distributed TensorFlow');
    launcher?.add({ command: CommandIDs.newRunsDashboard, category, rank: 14 });
    palette?.addItem({ command: CommandIDs.newRunsDashboard, category, args: { isPalette: true } });
  }
};
