import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IThemeManager } from '@jupyterlab/apputils';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Menu } from '@lumino/widgets';

import { CommandIDs, IDtf } from '../tokens';
import {
  CLUSTER_MIME,
  ClusterOutput,
  OutputOptions,
  RUN_CARD_MIME,
  RUN_MIME,
  RunCardOutput,
  RunOutput,
  SEARCH_MIME,
  SearchOutput
} from '../widgets/liveoutputs';
import { openResumeMenu } from './resumecommands';
import { searchActions } from './searches';

// Ranked before every other type in an output: those are for viewers without this extension. The renderer of ipywidgets
// has rank -10, and shows an error once the kernel is gone.
const RANK = -20;

/** Live runs and clusters in notebook outputs. */
export const outputs: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:outputs',
  description: 'Shows runs and clusters in the outputs of notebooks.',
  autoStart: true,
  requires: [IDtf, IRenderMimeRegistry],
  optional: [IThemeManager, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    dtf: IDtf,
    rendermime: IRenderMimeRegistry,
    themes: IThemeManager | null,
    translator: ITranslator | null
  ): void => {
    const { commands } = app;
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const run = (command: string, args: Record<string, string>) => void commands.execute(command, args);
    const options: OutputOptions = {
      dtf,
      trans,
      themeChanged: themes?.themeChanged ?? null,
      searches: searchActions(commands, trans),
      openRun: id => run(CommandIDs.openRun, { run: id }),
      stop: id => run(CommandIDs.stopRun, { run: id }),
      pause: id => run(CommandIDs.pauseRun, { run: id }),
      continue: id => run(CommandIDs.continueRun, { run: id }),
      open: id => run(CommandIDs.openRun, { run: id }),
      resume: (id, at) => openResumeMenu(commands, dtf, id, at),
      menu: (id, at) => {
        const menu = new Menu({ commands });
        for (const command of [CommandIDs.openRun, CommandIDs.copyRunId]) {
          menu.addItem({ command, args: { run: id } });
        }
        const { left, bottom } = at.getBoundingClientRect();
        menu.open(left, bottom);
      },
      scaleCluster: name => run(CommandIDs.scaleCluster, { name }),
      stopCluster: name => run(CommandIDs.stopCluster, { name })
    };
    const makers: [string, () => IRenderMime.IRenderer][] = [
      [RUN_MIME, () => new RunOutput(options)],
      [SEARCH_MIME, () => new SearchOutput(options)],
      [RUN_CARD_MIME, () => new RunCardOutput(options)],
      [CLUSTER_MIME, () => new ClusterOutput(options)]
    ];
    for (const [mime, createRenderer] of makers) {
      rendermime.addFactory({ safe: true, mimeTypes: [mime], defaultRank: RANK, createRenderer }, RANK);
    }
  }
};
