import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { notebookIcon } from '@jupyterlab/ui-components';

import { CommandIDs, IDtf } from '../tokens';
import { attempt, choose, describe } from './commandhelpers';

const EXAMPLE = 'digits.ipynb';

/** Opens copies of the examples that come with the package, from the palette, the launcher and the Help menu. */
export const example: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:example',
  description: 'Opens copies of the examples.',
  autoStart: true,
  requires: [IDtf],
  optional: [ICommandPalette, ILauncher, IMainMenu, IDefaultFileBrowser, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    dtf: IDtf,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    menu: IMainMenu | null,
    browser: IDefaultFileBrowser | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const { commands } = app;
    const { contents } = app.serviceManager;
    const category = trans.__('Distributed TensorFlow');

    /** The current folder of the file browser; the server's root if that is on another drive. */
    const folder = (cwd: unknown) => {
      const seen = typeof cwd === 'string' ? cwd : (browser?.model.path ?? '');
      return ['', 'RTC'].includes(contents.driveName(seen)) ? contents.localPath(seen) : '';
    };
    const open = async (name: string, cwd: unknown) => {
      const { path } = await dtf.api.copyExample(name, folder(cwd));
      return (await commands.execute('docmanager:open', { path })) as unknown;
    };
    const cwd = trans.__('The folder to copy it to; the one in the file browser if omitted');
    commands.addCommand(CommandIDs.openExample, {
      label: args => {
        if (args['isHelp']) {
          return trans.__('Distributed TensorFlow Example');
        }
        return args['isPalette'] ? trans.__('Open the Example') : trans.__('Example');
      },
      caption: trans.__('Open a copy of the example: a Keras model trained on two processes'),
      icon: args => (args['isPalette'] || args['isHelp'] ? undefined : notebookIcon),
      describedBy: describe({ cwd }),
      isEnabled: () => dtf.server.health === 'ok',
      execute: args => attempt(trans, () => open(EXAMPLE, args['cwd']))
    });
    commands.addCommand(CommandIDs.chooseExample, {
      label: args => (args['isHelp'] ? trans.__('Distributed TensorFlow Examples…') : trans.__('Open an Example…')),
      caption: trans.__('Choose one of the examples and open a copy of it'),
      describedBy: describe({ name: trans.__('The example’s file name, such as recovery.ipynb'), cwd }),
      isEnabled: () => dtf.server.health === 'ok',
      execute: args =>
        attempt(trans, async () => {
          const items = (await dtf.api.examples()).map(value => ({ value, label: value }));
          const none = trans.__('There are no examples.');
          const name = await choose(args['name'], items, trans.__('Open an example'), none);
          return name === null ? null : open(name, args['cwd']);
        })
    });
    palette?.addItem({ command: CommandIDs.openExample, category, args: { isPalette: true } });
    palette?.addItem({ command: CommandIDs.chooseExample, category });
    launcher?.add({ command: CommandIDs.openExample, category, rank: 11 });
    menu?.helpMenu.addGroup(
      [
        { command: CommandIDs.openExample, args: { isHelp: true } },
        { command: CommandIDs.chooseExample, args: { isHelp: true } }
      ],
      20
    );
  }
};
