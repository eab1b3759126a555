import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import {
  Clipboard,
  ICommandPalette,
  InputDialog,
  type MainAreaWidget,
  Notification,
  WidgetTracker
} from '@jupyterlab/apputils';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';

import { runIcon } from '../icons';
import { formatClock } from '../model/format';
import { Search, searchesOf } from '../model/search';
import { CommandIDs, IDtf } from '../tokens';
import type { SearchActions } from '../views/search/searchview';
import { SearchPane } from '../widgets/searchpane';
import { attempt, choose, describe } from './commandhelpers';
import { mainWidget, showInMain } from './mainarea';

/** The actions of a search's view, wherever it is shown. */
export function searchActions(commands: JupyterFrontEnd['commands'], trans: TranslationBundle): SearchActions {
  return {
    onOpen: run => void commands.execute(CommandIDs.openRun, { run }),
    onStop: run => void commands.execute(CommandIDs.stopRun, { run }),
    onStopSearch: search => void commands.execute(CommandIDs.stopSearch, { search }),
    onMore: search => void commands.execute(CommandIDs.addTrials, { search }),
    onCopy: text => {
      Clipboard.copyToSystem(text);
      Notification.success(trans.__('The parameters have been copied to the clipboard'), { autoClose: 3000 });
    }
  };
}

/** The view of a search, and the command that opens it. */
export const searches: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:searches',
  description: 'All trials of a search in one view.',
  autoStart: true,
  requires: [IDtf],
  optional: [ILayoutRestorer, ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    dtf: IDtf,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const { commands } = app;
    const tracker = new WidgetTracker<MainAreaWidget<SearchPane>>({ namespace: 'jupyter-dtf-searches' });
    const find = (id: string) => searchesOf(dtf.runs.runs.filter(run => run.trial?.search === id))[0];

    commands.addCommand(CommandIDs.openSearch, {
      label: args => (args['search'] ? trans.__('Open Search') : trans.__('Open Search…')),
      icon: args => (args['search'] ? runIcon : undefined),
      describedBy: describe({ search: trans.__('The id of the search') }),
      execute: async args => {
        const search = await choose(
          args['search'],
          searchesOf(dtf.runs.runs)
            .slice(0, 200)
            .map(({ id, name, cluster, newest }) => ({
              value: id,
              label: `${name} (${cluster}, ${formatClock(newest)}, ${id})`
            })),
          trans.__('Open which search?'),
          trans.__('There are no searches.')
        );
        if (search === null) {
          return;
        }
        let widget = tracker.find(other => other.content.search === search);
        if (!widget) {
          const content = new SearchPane({ search, dtf, trans, ...searchActions(commands, trans) });
          const title = () => {
            const found = find(search);
            const caption = found ? trans.__('Search %1 on %2', found.name, found.cluster) : search;
            return { label: found?.name ?? search, caption };
          };
          const { changed } = dtf.runs;
          widget = mainWidget(content, { id: `jupyter-dtf-search-${search}`, icon: runIcon, title, changed });
          await tracker.add(widget);
        }
        showInMain(app.shell, widget, args);
      }
    });
    const describedBy = describe({ search: trans.__('The id of the search') });
    const going = (filter: (search: Search) => boolean) =>
      searchesOf(dtf.runs.runs).filter(search => search.isRunning && filter(search));
    const pick = (given: unknown, title: string, filter: (search: Search) => boolean) =>
      choose(
        given,
        going(filter).map(({ id, name, cluster }) => ({ value: id, label: `${name} (${cluster})` })),
        title,
        trans.__('No such search is running.')
      );
    commands.addCommand(CommandIDs.stopSearch, {
      label: trans.__('Stop Search'),
      describedBy,
      execute: async args => {
        const search = await pick(args['search'], trans.__('Stop which search?'), () => true);
        if (search !== null) {
          await attempt(trans, () => dtf.runs.askSearch(search, { stop: true }));
        }
      }
    });
    commands.addCommand(CommandIDs.addTrials, {
      label: trans.__('Add Trials to Search…'),
      describedBy,
      execute: async args => {
        const search = await pick(args['search'], trans.__('Add trials to which search?'), ({ mayGrow }) => mayGrow);
        if (search === null) {
          return;
        }
        const title = trans.__('How many trials should be added?');
        const { button, value } = await InputDialog.getNumber({ title, value: 10 });
        const more = Math.round(value ?? 0);
        if (button.accept && more > 0) {
          await attempt(trans, () => dtf.runs.askSearch(search, { more }));
        }
      }
    });
    for (const command of [CommandIDs.stopSearch, CommandIDs.addTrials]) {
      palette?.addItem({ command, category: trans.__('Distributed TensorFlow') });
    }
    palette?.addItem({ command: CommandIDs.openSearch, category: trans.__('Distributed TensorFlow') });

    const seen = new Set<string>();
    dtf.runs.started.connect((_, { trial }) => {
      // A trial does not open a dashboard of its own: its search has one.
      if (trial && !seen.has(trial.search) && dtf.preferences.values.openOnStart) {
        seen.add(trial.search);
        void commands.execute(CommandIDs.openSearch, { search: trial.search, mode: 'split-right', activate: false });
      }
    });
    void restorer?.restore(tracker, {
      command: CommandIDs.openSearch,
      args: widget => ({ search: widget.content.search }),
      name: widget => widget.content.search
    });
  }
};
