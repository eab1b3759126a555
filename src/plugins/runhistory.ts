import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import {
  ICommandPalette,
  InputDialog,
  IThemeManager,
  type MainAreaWidget,
  Notification,
  WidgetTracker
} from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Menu } from '@lumino/widgets';

import type { RunInfo, RunPatch } from '../api/schema';
import { runIcon } from '../icons';
import { isFinal } from '../model/runstate';
import { CommandIDs, IDtf } from '../tokens';
import type { HistoryChoices } from '../views/history/history';
import { HistoryPane } from '../widgets/historypane';
import { describe } from './commandhelpers';
import { askLines } from './multilinedialog';
import { mainWidget, showInMain } from './mainarea';
import { RunEdits } from './runedits';

const KEPT = 'jupyter_dtf:history';
/** The commands that edit a run's name, tags and note, or archive and delete it. */
export const MARKING = [
  CommandIDs.renameRun,
  CommandIDs.tagRun,
  CommandIDs.noteRun,
  CommandIDs.archiveRun,
  CommandIDs.deleteRun
];

/** All runs in the main area, and the commands that name, tag, archive and delete them. */
export const history: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:history',
  description: 'A table of all runs, their comparison, and their names, tags and notes.',
  autoStart: true,
  requires: [IDtf],
  optional: [ILayoutRestorer, ICommandPalette, ILauncher, IThemeManager, IStateDB, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    dtf: IDtf,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    themes: IThemeManager | null,
    state: IStateDB | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const { commands } = app;
    const category = trans.__('Distributed TensorFlow');
    const byId = describe({ run: trans.__('The id of the run') });
    const tracker = new WidgetTracker<MainAreaWidget<HistoryPane>>({ namespace: 'jupyter-dtf-history' });

    const edits = new RunEdits(dtf.runs, trans);
    const archive = (ids: readonly string[], archived = true) => edits.archive(ids, archived);
    const remove = async (all: readonly string[]) => {
      const ids = all.filter(id => isFinal(dtf.runs.get(id)?.state ?? 'running'));
      if (ids.length < all.length) {
        Notification.warning(trans.__('A run must have ended to be deleted. Stop it first.'), { autoClose: 5000 });
      }
      await edits.remove(ids);
    };

    const menu = (run: string, at: HTMLElement) => {
      const made = new Menu({ commands });
      for (const command of [CommandIDs.openRun, ...MARKING, CommandIDs.copyRunId]) {
        made.addItem({ command, args: { run } });
      }
      const { left, bottom } = at.getBoundingClientRect();
      made.open(left, bottom);
    };

    commands.addCommand(CommandIDs.openHistory, {
      label: trans.__('All Runs'),
      caption: trans.__('Find, sort and compare the runs of all clusters, past and present'),
      icon: args => (args['isPalette'] ? undefined : runIcon),
      describedBy: describe({}),
      execute: async () => {
        let widget = tracker.currentWidget ?? tracker.find(() => true);
        if (!widget) {
          const content = new HistoryPane({
            dtf,
            trans,
            themeChanged: themes?.themeChanged ?? null,
            onOpen: id => void commands.execute(CommandIDs.openRun, { run: id }),
            onMenu: menu,
            onArchive: ids => void archive(ids),
            onDelete: ids => void remove(ids),
            onSaveDashboard: dashboard =>
              void commands.execute(CommandIDs.newRunsDashboard, { dashboard: structuredClone(dashboard) as never }),
            keep: choices => void state?.save(KEPT, { ...choices, sorting: { ...choices.sorting } })
          });
          const kept = readChoices(await state?.fetch(KEPT));
          if (kept) {
            content.setChoices(kept);
          }
          const title = () => ({ label: trans.__('Runs') });
          widget = mainWidget(content, { id: 'jupyter-dtf-history', icon: runIcon, title });
          await tracker.add(widget);
        }
        showInMain(app.shell, widget);
      }
    });

    /** Add a command that prompts for a text property of a run and saves it. */
    const asking = (
      command: string,
      label: string,
      ask: (run: RunInfo) => Promise<string | null>,
      patch: (text: string) => RunPatch
    ) =>
      commands.addCommand(command, {
        label,
        describedBy: byId,
        execute: async args => {
          const run = dtf.runs.get(args['run'] as string);
          const text = run && (await ask(run));
          if (run && text !== null && text !== undefined) {
            await edits.apply([run.id], patch(text));
          }
        }
      });
    const text = async (title: string, value: string) => {
      const { button, value: given } = await InputDialog.getText({ title, text: value });
      return button.accept ? (given ?? '') : null;
    };
    asking(
      CommandIDs.renameRun,
      trans.__('Rename Run…'),
      run => text(trans.__('New name; leave it empty to restore the original name'), run.name),
      name => ({ name })
    );
    asking(
      CommandIDs.tagRun,
      trans.__('Edit Tags of Run…'),
      run => text(trans.__('Tags of %1, separated by commas', run.name), run.marks.tags.join(', ')),
      tags => ({
        tags: tags
          .split(',')
          .map(tag => tag.trim())
          .filter(tag => tag !== '')
      })
    );
    asking(
      CommandIDs.noteRun,
      trans.__('Edit Note on Run…'),
      run => askLines(trans, trans.__('Note on %1', run.name), run.marks.note),
      note => ({ note })
    );
    const isArchived = (run: unknown) => dtf.runs.get(run as string)?.marks.archived ?? false;
    commands.addCommand(CommandIDs.archiveRun, {
      label: args => (isArchived(args['run']) ? trans.__('Unarchive') : trans.__('Archive Run')),
      describedBy: byId,
      execute: args => archive([args['run'] as string], !isArchived(args['run']))
    });
    commands.addCommand(CommandIDs.deleteRun, {
      label: trans.__('Delete Run'),
      describedBy: byId,
      isEnabled: args => isFinal(dtf.runs.get(args['run'] as string)?.state ?? 'running'),
      execute: args => remove([args['run'] as string])
    });

    palette?.addItem({ command: CommandIDs.openHistory, category, args: { isPalette: true } });
    launcher?.add({ command: CommandIDs.openHistory, category, rank: 13 });
    void restorer?.restore(tracker, { command: CommandIDs.openHistory, name: () => 'history' });
  }
};

/** The stored choices, if they are in the current format. */
function readChoices(kept: unknown): HistoryChoices | null {
  const { columns, sorting, group = '' } = (kept ?? {}) as Partial<HistoryChoices>;
  const { column, descending } = (sorting ?? {}) as Partial<HistoryChoices['sorting']>;
  const is = Array.isArray(columns) && columns.every(each => typeof each === 'string');
  if (!is || typeof column !== 'string' || typeof descending !== 'boolean' || typeof group !== 'string') {
    return null;
  }
  return { columns, sorting: { column, descending }, group };
}
