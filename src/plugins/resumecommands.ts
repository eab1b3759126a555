import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';

import type { RunInfo } from '../api/schema';
import { canPause, canResume } from '../model/runstate';
import { CommandIDs, type IDtf } from '../tokens';
import { attempt, choose, describe } from './commandhelpers';

/** The commands for a run that can be paused and resumed, in menu order. */
export const RUN_COMMANDS = [
  CommandIDs.openRun,
  CommandIDs.stopRun,
  CommandIDs.pauseRun,
  CommandIDs.continueRun,
  CommandIDs.resumeRun
] as const;

type Pick = (given: unknown, title: string, wanted: (run: RunInfo) => boolean) => Promise<string | null>;

/** Represents a cluster that has yet to be started; not a valid cluster name. */
const NEW_CLUSTER = '+';

/** The commands that pause a run, continue it, and resume it as a new run. */
export function addGoingOnCommands(commands: CommandRegistry, dtf: IDtf, trans: TranslationBundle, pick: Pick): void {
  const add = (
    id: string,
    label: string,
    title: string,
    wanted: (run: RunInfo) => boolean,
    work: (run: string) => Promise<void>
  ) =>
    commands.addCommand(id, {
      label: args => (args['run'] ? label : `${label}…`),
      describedBy: describe({ run: trans.__('The id of the run') }),
      isEnabled: args => isEnabled(dtf, args['run'], wanted),
      execute: async args => {
        const run = await pick(args['run'], title, wanted);
        if (run !== null) {
          await attempt(trans, () => work(run));
        }
      }
    });
  add(CommandIDs.pauseRun, trans.__('Pause Run'), trans.__('Pause which run?'), canPause, id => dtf.runs.pause(id));
  add(CommandIDs.continueRun, trans.__('Continue Run'), trans.__('Continue which run?'), isPaused, id =>
    dtf.runs.continue(id)
  );
  addResumeCommand(commands, dtf, trans, pick);
}

function isPaused(run: RunInfo): boolean {
  return run.state === 'paused';
}

/** Whether a command applies to the given run, or to any run if none was given. */
function isEnabled(dtf: IDtf, run: unknown, wanted: (run: RunInfo) => boolean): boolean {
  const info = typeof run === 'string' ? dtf.runs.get(run) : undefined;
  return dtf.server.health === 'ok' && (info === undefined || wanted(info));
}

/** The command that resumes a run on a cluster as a new run, and opens it. */
function addResumeCommand(commands: CommandRegistry, dtf: IDtf, trans: TranslationBundle, pick: Pick): void {
  const nameOf = (cluster: string) => (cluster === NEW_CLUSTER ? trans.__('A new local cluster') : cluster);
  commands.addCommand(CommandIDs.resumeRun, {
    label: args => (typeof args['cluster'] === 'string' ? nameOf(args['cluster']) : trans.__('Resume Run on…')),
    describedBy: describe({
      run: trans.__('The id of the run'),
      cluster: trans.__('The name of the cluster, or + for a new one on this machine')
    }),
    isEnabled: args => isEnabled(dtf, args['run'], canResume),
    execute: async args => {
      const run = await pick(args['run'], trans.__('Resume which run?'), canResume);
      if (run === null) {
        return;
      }
      const cluster = await choose(
        args['cluster'],
        places(dtf).map(value => ({ value, label: nameOf(value) })),
        trans.__('Resume on which cluster?'),
        ''
      );
      if (cluster === null) {
        return;
      }
      const again = await attempt(trans, () => resume(dtf, run, cluster));
      if (again) {
        await commands.execute(CommandIDs.openRun, { run: again.id });
      }
    }
  });
}

/** Ask for the cluster on which to resume a run, in a menu below the pressed button. */
export function openResumeMenu(commands: CommandRegistry, dtf: IDtf, run: string, at: HTMLElement): void {
  const menu = new Menu({ commands });
  for (const cluster of places(dtf)) {
    if (cluster === NEW_CLUSTER && menu.items.length > 0) {
      menu.addItem({ type: 'separator' });
    }
    menu.addItem({ command: CommandIDs.resumeRun, args: { run, cluster } });
  }
  const { left, bottom } = at.getBoundingClientRect();
  menu.open(left, bottom);
}

/** The clusters on which a run can be resumed. On a cluster that is starting, the run resumes once it has started. */
function places(dtf: IDtf): string[] {
  const there = dtf.clusters.clusters.filter(({ state }) => state === 'running' || state === 'starting');
  return [...there.map(({ name }) => name), NEW_CLUSTER];
}

async function resume(dtf: IDtf, run: string, cluster: string): Promise<RunInfo> {
  if (cluster === NEW_CLUSTER) {
    const started = await dtf.clusters.start({ kind: 'local', jobs: dtf.runs.get(run)?.jobs ?? {} });
    return dtf.runs.resume(run, started.name);
  }
  return dtf.runs.resume(run, cluster);
}
