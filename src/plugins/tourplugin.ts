import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IMainMenu } from '@jupyterlab/mainmenu';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';

import { CommandIDs, IDtf } from '../tokens';
import type { TourStep } from '../views/tour';
import { TourPopover } from '../widgets/tourpopover';
import { describe } from './commandhelpers';

/** The tour of five steps, started from the Help menu and the palette. */
export const tour: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:tour',
  description: 'A tour of the panel in five steps.',
  autoStart: true,
  requires: [IDtf],
  optional: [ICommandPalette, IMainMenu, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    _: IDtf,
    palette: ICommandPalette | null,
    menu: IMainMenu | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    let open: TourPopover | null = null;
    app.commands.addCommand(CommandIDs.takeTour, {
      label: args => (args['isPalette'] ? trans.__('Take the Tour') : trans.__('Tour of Distributed TensorFlow')),
      caption: trans.__('Start, fit, watch, draw, stop: the panel in five steps'),
      describedBy: describe({}),
      execute: async () => {
        open?.dispose();
        open = new TourPopover(tourSteps(trans), trans); // it remembers where the focus was
        await app.commands.execute(CommandIDs.showPanel);
        open.open();
      }
    });
    const category = trans.__('Distributed TensorFlow');
    palette?.addItem({ command: CommandIDs.takeTour, category, args: { isPalette: true } });
    menu?.helpMenu.addGroup([{ command: CommandIDs.takeTour }], 20);
  }
};

/** The texts of the tour, and their anchors. */
export function tourSteps(trans: TranslationBundle): TourStep[] {
  const panel = '.jp-dtf-panel';
  const section = (number: number) => `${panel} .jp-dtf-section:nth-of-type(${number})`;
  const card = `${panel} .jp-dtf-cluster`;
  return [
    {
      title: trans.__('Start a cluster'),
      text: trans.__(
        'Start two workers on this machine, or press + for more of them, for GPUs, and for other machines. A cluster keeps running when you close this page.'
      ),
      anchors: [section(1), panel]
    },
    {
      title: trans.__('Fit a model'),
      text: trans.__(
        'Connect makes it the cluster of your notebook. There, model.fit(x, y) becomes cluster.fit(model, x, y), and every worker trains on its share of each batch.'
      ),
      anchors: [card, section(1), panel]
    },
    {
      title: trans.__('Watch the run'),
      text: trans.__(
        'Each fit is a run. A click on it opens its plots, machines, output and events, while it trains and long after.'
      ),
      anchors: [section(2), panel]
    },
    {
      title: trans.__('Draw a design'),
      text: trans.__(
        'A design is a drawing of a cluster with a model placed on its devices. It predicts how long a step takes, and can be trained as it is drawn.'
      ),
      anchors: [section(3), panel]
    },
    {
      title: trans.__('Stop'),
      text: trans.__(
        'Stop ends a run, or a cluster with all of its runs. Measurements and saved files are kept. This tour and an example are in the Help menu.'
      ),
      anchors: [card, section(1), panel]
    }
  ];
}
