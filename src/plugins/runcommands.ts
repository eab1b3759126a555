import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import {
  Clipboard,
  Dialog,
  ICommandPalette,
  IThemeManager,
  type MainAreaWidget,
  showDialog,
  WidgetTracker
} from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Menu } from '@lumino/widgets';

import type { RunInfo } from '../api/schema';
import { runIcon } from '../icons';
import { canStop, isFinal } from '../model/runstate';
import { CommandIDs, IDtf } from '../tokens';
import { momentText } from '../views/localizedtext';
import { RunDashboard } from '../widgets/dashboard';
import { attempt, choose, describe } from './commandhelpers';
import { mainWidget, showInMain } from './mainarea';
import { addGoingOnCommands, openResumeMenu, RUN_COMMANDS } from './resumecommands';

/** Dashboards of runs, and the commands for runs. */
export const runs: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:runs',
  description: 'The dashboard of a run, and commands for runs.',
  autoStart: true,
  requires: [IDtf],
  optional: [ILayoutRestorer, ICommandPalette, IThemeManager, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    dtf: IDtf,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
    themes: IThemeManager | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const { commands } = app;
    const byId = describe({ run: trans.__('The id of the run') });
    const tracker = new WidgetTracker<MainAreaWidget<RunDashboard>>({ namespace: 'jupyter-dtf-runs' });

    const pick = (given: unknown, title: string, wanted: (run: RunInfo) => boolean) =>
      choose(
        given,
        dtf.runs.runs
          .filter(wanted)
          .slice(0, 200)
          .map(run => ({ value: run.id, label: `${dtf.runs.title(run.id)} (${run.cluster}, ${run.id})` })),
        title,
        trans.__('There is no such run.')
      );

    const menu = (run: string, at: HTMLElement) => {
      const made = new Menu({ commands });
      for (const command of [...RUN_COMMANDS, CommandIDs.copyRunId, CommandIDs.forgetRun]) {
        made.addItem({ command, args: { run } });
      }
      const { left, bottom } = at.getBoundingClientRect();
      made.open(left, bottom);
    };

    commands.addCommand(CommandIDs.openRun, {
      label: args => (args['run'] ? trans.__('Open Dashboard') : trans.__('Open Dashboard of Run…')),
      icon: args => (args['run'] ? runIcon : undefined),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            run: { type: 'string', description: trans.__('The id of the run') },
            mode: { type: 'string', description: trans.__('Where to open it, such as split-right') },
            activate: { type: 'boolean', description: trans.__('Whether to bring it to the front; true if omitted') }
          }
        }
      },
      execute: async args => {
        const run = await pick(args['run'], trans.__('Open which run?'), () => true);
        if (run === null) {
          return;
        }
        let widget = tracker.find(other => other.content.run === run);
        if (!widget) {
          const content = new RunDashboard({
            run,
            dtf,
            trans,
            themeChanged: themes?.themeChanged ?? null,
            stop: id => void commands.execute(CommandIDs.stopRun, { run: id }),
            pause: id => void commands.execute(CommandIDs.pauseRun, { run: id }),
            continue: id => void commands.execute(CommandIDs.continueRun, { run: id }),
            open: id => void commands.execute(CommandIDs.openRun, { run: id }),
            resume: (id, at) => openResumeMenu(commands, dtf, id, at),
            menu
          });
          const title = () => {
            const info = dtf.runs.get(run);
            const caption = info
              ? trans.__('Run %1 on %2, %3', info.name, info.cluster, momentText(info.created))
              : run;
            return { label: dtf.runs.title(run), caption };
          };
          const { changed } = dtf.runs;
          widget = mainWidget(content, { id: `jupyter-dtf-run-${run}`, icon: runIcon, title, changed });
          await tracker.add(widget);
        }
        showInMain(app.shell, widget, args);
      }
    });
    commands.addCommand(CommandIDs.stopRun, {
      label: args => (args['run'] ? trans.__('Stop Run') : trans.__('Stop Run…')),
      describedBy: byId,
      isEnabled: args => {
        const info = typeof args['run'] === 'string' ? dtf.runs.get(args['run']) : undefined;
        return dtf.server.health === 'ok' && (info === undefined || canStop(info.state));
      },
      execute: async args => {
        const run = await pick(args['run'], trans.__('Stop which run?'), info => canStop(info.state));
        if (run !== null) {
          await attempt(trans, () => dtf.runs.stop(run));
        }
      }
    });
    addGoingOnCommands(commands, dtf, trans, pick);
    commands.addCommand(CommandIDs.copyRunId, {
      label: trans.__('Copy Run ID'),
      describedBy: byId,
      execute: args => Clipboard.copyToSystem(args['run'] as string)
    });
    commands.addCommand(CommandIDs.forgetRun, {
      label: trans.__('Delete Run Permanently…'),
      describedBy: byId,
      isEnabled: args => {
        const info = typeof args['run'] === 'string' ? dtf.runs.get(args['run']) : undefined;
        return dtf.server.health === 'ok' && (info === undefined || isFinal(info.state));
      },
      execute: async args => {
        const run = await pick(args['run'], trans.__('Delete which run permanently?'), info => isFinal(info.state));
        const info = run === null ? undefined : dtf.runs.get(run);
        if (!info) {
          return;
        }
        const { button } = await showDialog({
          title: trans.__('Delete %1 permanently?', info.name),
          body: trans.__('Its metrics, output and events will be deleted.'),
          buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Delete') })]
        });
        if (button.accept) {
          await attempt(trans, () => dtf.runs.forget(info.id));
        }
      }
    });

    const category = trans.__('Distributed TensorFlow');
    for (const command of [...RUN_COMMANDS, CommandIDs.forgetRun]) {
      palette?.addItem({ command, category });
    }
    dtf.runs.changed.connect(() => {
      RUN_COMMANDS.forEach(command => commands.notifyCommandChanged(command));
    });
    dtf.runs.started.connect((_, info) => {
      if (dtf.preferences.values.openOnStart && !info.trial) {
        void commands.execute(CommandIDs.openRun, { run: info.id, mode: 'split-right', activate: false });
      }
    });
    void restorer?.restore(tracker, {
      command: CommandIDs.openRun,
      args: widget => ({ run: widget.content.run }),
      name: widget => widget.content.run
    });
  }
};
