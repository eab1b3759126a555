import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import {
  Clipboard,
  Dialog,
  ICommandPalette,
  IThemeManager,
  Notification,
  showDialog,
  WidgetTracker
} from '@jupyterlab/apputils';
import type { CodeEditor } from '@jupyterlab/codeeditor';
import { PathExt } from '@jupyterlab/coreutils';
import type { IDocumentWidget } from '@jupyterlab/docregistry';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { runIcon } from '@jupyterlab/ui-components';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { Widget } from '@lumino/widgets';

import { type ClusterRequest, DESIGN_SUFFIX } from '../api/schema';
import { designIcon } from '../icons';
import { clusterName, designFrom, designOf, requestOf } from '../model/clusterdesign';
import { readDesign, writeDesign } from '../model/designtext';
import { CommandIDs, IDtf } from '../tokens';
import { DesignerDocument, DesignerFactory } from '../widgets/designerdocument';
import type { DesignerOptions, OpenDesign } from '../widgets/designeroptions';
import { attempt, choose, describe } from './commandhelpers';
import { openNewDocument } from './newdocument';
import { placementServices } from './placement';
import { trackDocuments } from './trackeddocuments';

const FACTORY = 'Designer';
const FILE_TYPE = 'dtf-design';

/** The designer: `.dtf` documents, and the commands for them. */
export const designer: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:designer',
  description: 'Opens .dtf files: drawings of a cluster and a model placed on it.',
  autoStart: true,
  requires: [IDtf],
  optional: [
    ILayoutRestorer,
    ICommandPalette,
    ILauncher,
    IMainMenu,
    IDefaultFileBrowser,
    INotebookTracker,
    IThemeManager,
    ITranslator
  ],
  activate: (
    app: JupyterFrontEnd,
    dtf: IDtf,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    menu: IMainMenu | null,
    browser: IDefaultFileBrowser | null,
    notebooks: INotebookTracker | null,
    themes: IThemeManager | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const { commands, docRegistry, shell } = app;
    const { contents } = app.serviceManager;
    const tracker = new WidgetTracker<DesignerDocument>({ namespace: 'jupyter-dtf-designs' });

    const options: DesignerOptions = {
      dtf,
      contents,
      trans,
      placement: document => placementServices(app, dtf, notebooks, document, trans),
      start: async document => {
        await attempt(trans, () => dtf.clusters.start(requestOf(document.design.design.cluster, document.clusterName)));
      },
      stop: name => void commands.execute(CommandIDs.stopCluster, { name }),
      openText: (path, line, column) => void openText(path, line, column),
      exportScript: document => exportScript(document),
      copy: text => Clipboard.copyToSystem(text),
      openDesign: ({ context }, design) =>
        void attempt(trans, () =>
          openNew(
            writeDesign(design),
            PathExt.dirname(context.localPath),
            trans.__('%1-plan', PathExt.basename(context.localPath, DESIGN_SUFFIX))
          )
        ),
      themeChanged: themes?.themeChanged ?? null
    };

    const openText = async (path: string, line: number, column: number) => {
      const opened = (await commands.execute('docmanager:open', { path, factory: 'Editor' })) as
        IDocumentWidget<Widget & { editor?: CodeEditor.IEditor }> | undefined;
      await opened?.revealed;
      await opened?.context.ready;
      const editor = opened?.content.editor;
      const position = { line: line - 1, column: column - 1 };
      editor?.setCursorPosition(position);
      editor?.revealPosition(position);
      editor?.focus();
    };

    const exportScript = async (document: OpenDesign) => {
      const { localPath, path } = document.context;
      const target = path.replace(/(\.dtf)?$/, '.py');
      await attempt(trans, async () => {
        const script = await dtf.api.scriptOf(document.design.design);
        const there = await contents.get(PathExt.dirname(localPath), { type: 'directory', content: true });
        const names = (there.content as { name: string }[]).map(({ name }) => name);
        if (names.includes(PathExt.basename(target))) {
          const { button } = await showDialog({
            title: trans.__('Replace %1?', PathExt.basename(target)),
            body: trans.__('A file with that name already exists next to the design.'),
            buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Replace') })]
          });
          if (!button.accept) {
            return;
          }
        }
        await contents.save(target, { type: 'file', format: 'text', content: script });
        await commands.execute('docmanager:open', { path: target });
      });
    };

    docRegistry.addFileType({
      name: FILE_TYPE,
      displayName: trans.__('TensorFlow Design'),
      extensions: [DESIGN_SUFFIX],
      mimeTypes: ['application/json'],
      contentType: 'file',
      fileFormat: 'text',
      icon: designIcon
    });
    const factory = new DesignerFactory(
      {
        name: FACTORY,
        label: trans.__('Designer'),
        modelName: 'text',
        fileTypes: [FILE_TYPE],
        defaultFor: [FILE_TYPE],
        ...(translator ? { translator } : {})
      },
      options
    );
    trackDocuments(docRegistry, factory, tracker, designIcon, restorer);
    factory.widgetCreated.connect((_, document) => {
      document.design.changed.connect(() => commands.notifyCommandChanged());
    });

    const current = () => {
      const document = tracker.currentWidget;
      return document && document === shell.currentWidget ? document : null;
    };

    const openNew = (text: string, folder: string, stem: string) =>
      openNewDocument(app, { text, folder, stem, suffix: DESIGN_SUFFIX, factory: FACTORY });

    commands.addCommand(CommandIDs.newDesign, {
      label: args => {
        if (args['isContextMenu']) {
          return trans.__('New TensorFlow Design');
        }
        return args['isPalette'] ? trans.__('New Design') : trans.__('TensorFlow Design');
      },
      caption: trans.__('Draw a cluster, and a model placed on it'),
      icon: args => (args['isPalette'] ? undefined : designIcon),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            cwd: { type: 'string', description: trans.__('The folder of the new file') },
            request: { type: 'object', description: trans.__('The body of POST clusters: the cluster to be drawn') },
            isPalette: { type: 'boolean' },
            isContextMenu: { type: 'boolean' }
          }
        }
      },
      execute: args =>
        attempt(trans, () => {
          const request = args['request'] as ClusterRequest | undefined;
          const folder = (args['cwd'] as string | undefined) ?? browser?.model.path ?? '';
          return openNew(writeDesign(designFrom(request ?? {})), folder, request?.name ?? '');
        })
    });
    commands.addCommand(CommandIDs.saveDesign, {
      label: args => (args['isPalette'] ? trans.__('Save Cluster as Design…') : trans.__('Save as Design')),
      describedBy: describe({ name: trans.__('The name of the cluster') }),
      isEnabled: () => dtf.server.health === 'ok',
      execute: async args => {
        const items = dtf.clusters.clusters
          .filter(({ state }) => state === 'running')
          .map(({ name }) => ({ value: name, label: name }));
        const none = trans.__('There is no such cluster. Start one in the panel.');
        const name = await choose(args['name'], items, trans.__('Save which cluster as a design?'), none);
        const cluster = name === null ? undefined : dtf.clusters.get(name);
        if (cluster) {
          const design = designOf(cluster, dtf.clusters.requestOf(cluster.name));
          await attempt(trans, () => openNew(writeDesign(design), browser?.model.path ?? '', cluster.name));
        }
      }
    });
    /** The design that a command applies to, if it is not the current one. */
    const pathOf = ({ path, isContextMenu }: ReadonlyPartialJSONObject): string | undefined => {
      if (isContextMenu) {
        return [...(browser?.selectedItems() ?? [])].find(({ name }) => name.endsWith(DESIGN_SUFFIX))?.path;
      }
      return typeof path === 'string' ? path : undefined;
    };
    commands.addCommand(CommandIDs.startDesign, {
      label: trans.__('Start Cluster from Design'),
      icon: args => (args['isContextMenu'] ? runIcon : undefined),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            path: { type: 'string', description: trans.__('The path of the design; the current one if omitted') },
            isContextMenu: {
              type: 'boolean',
              description: trans.__('Whether to use the design that is selected in the file browser')
            }
          }
        }
      },
      isEnabled: args => dtf.server.health === 'ok' && (pathOf(args) !== undefined || current() !== null),
      execute: async args => {
        const document = current();
        const path = pathOf(args);
        if (path !== undefined) {
          await attempt(trans, async () => {
            const file = await contents.get(path, { type: 'file', format: 'text', content: true });
            const { cluster } = readDesign(file.content as string);
            const info = await dtf.clusters.start(requestOf(cluster, clusterName(path)));
            Notification.info(trans.__('%1 is starting.', info.name), { autoClose: 3000 });
          });
        } else if (document) {
          await options.start(document);
        }
      }
    });
    commands.addCommand(CommandIDs.exportDesign, {
      label: trans.__('Write Design as Script'),
      caption: trans.__('A script in plain TensorFlow that trains the model as it is placed'),
      describedBy: describe({}),
      isEnabled: () => (current()?.design.design.model ?? null) !== null,
      execute: async () => {
        const document = current();
        if (document) {
          await exportScript(document);
        }
      }
    });
    commands.addCommand(CommandIDs.undoDesign, {
      label: () => labelled(trans.__('Undo'), current()?.design.undoLabel),
      describedBy: describe({}),
      isEnabled: () => current()?.design.canUndo ?? false,
      execute: () => current()?.design.undo()
    });
    commands.addCommand(CommandIDs.redoDesign, {
      label: () => labelled(trans.__('Redo'), current()?.design.redoLabel),
      describedBy: describe({}),
      isEnabled: () => current()?.design.canRedo ?? false,
      execute: () => current()?.design.redo()
    });
    menu?.editMenu.undoers.undo.add({ id: CommandIDs.undoDesign });
    menu?.editMenu.undoers.redo.add({ id: CommandIDs.redoDesign });
    launcher?.add({ command: CommandIDs.newDesign, category: trans.__('Distributed TensorFlow'), rank: 12 });
    for (const command of [
      CommandIDs.newDesign,
      CommandIDs.saveDesign,
      CommandIDs.startDesign,
      CommandIDs.exportDesign
    ]) {
      palette?.addItem({ command, category: trans.__('Distributed TensorFlow'), args: { isPalette: true } });
    }
    tracker.currentChanged.connect(() => commands.notifyCommandChanged());
  }
};

function labelled(what: string, step: string | undefined): string {
  return step === undefined || step === '' ? what : `${what}: ${step}`;
}
