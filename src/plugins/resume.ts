import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';

import type { RunInfo } from '../api/schema';
import { canResume } from '../model/state';
import { CommandIDs, type IDtf } from '../tokens';
import { attempt, choose, describe } from './ask';

/** Stands for a cluster that is yet to be started; no cluster is called so. */
const NEW_CLUSTER = '+';

/** The command that goes on with a run on a cluster, as a new run, and opens that. */
export function addResumeCommand(
  commands: CommandRegistry,
  dtf: IDtf,
  trans: TranslationBundle,
  pick: (given: unknown, title: string, wanted: (run: RunInfo) => boolean) => Promise<string | null>
): void {
  const nameOf = (cluster: string) => (cluster === NEW_CLUSTER ? trans.__('A new local cluster') : cluster);
  commands.addCommand(CommandIDs.resumeRun, {
    label: args => (typeof args['cluster'] === 'string' ? nameOf(args['cluster']) : trans.__('Resume Run on…')),
    describedBy: describe({
      run: trans.__('The id of the run'),
      cluster: trans.__('The name of the cluster, or + for a new one on this machine')
    }),
    isEnabled: args => {
      const info = typeof args['run'] === 'string' ? dtf.runs.get(args['run']) : undefined;
      return dtf.server.health === 'ok' && (info === undefined || canResume(info));
    },
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

/** Ask on which cluster to go on with a run, below what was pressed. */
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

/** The clusters that a run can go on upon, those that start included, which are waited for. */
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
