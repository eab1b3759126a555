import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRunningSessionManagers, IRunningSessions } from '@jupyterlab/running';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';
import { stopIcon } from '@jupyterlab/ui-components';
import { ISignal, Signal } from '@lumino/signaling';

import type { ClusterInfo, RunInfo } from '../api/schema';
import { dtfIcon, runIcon } from '../icons';
import { formatJobs } from '../model/format';
import { factsOf } from '../model/notebookstatus';
import { canStop, isFinal } from '../model/runstate';
import { CommandIDs, IDtf } from '../tokens';
import { momentText, stateText } from '../views/localizedtext';
import { attempt } from './commandhelpers';

/** Clusters and runs in *Running Terminals and Kernels*, if the application has it. */
export const runningSessions: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:running',
  description: 'Lists clusters and runs among the running terminals and kernels.',
  autoStart: true,
  requires: [IDtf],
  optional: [IRunningSessionManagers, ITranslator],
  activate: (
    { commands }: JupyterFrontEnd,
    dtf: IDtf,
    managers: IRunningSessionManagers | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const run = (command: string, args: Record<string, string> = {}) => void commands.execute(command, args);
    managers?.add(runningClusters(dtf, trans, run));
    managers?.add(runningRuns(dtf, trans, run));
  }
};

type Execute = (command: string, args?: Record<string, string>) => void;

/** All clusters except lost and failed ones, which have no running processes. */
export function runningClusters(dtf: IDtf, trans: TranslationBundle, run: Execute): IRunningSessions.IManager {
  const there = () => dtf.clusters.clusters.filter(({ state }) => state !== 'lost' && state !== 'failed');
  const detail = ({ state, jobs, active_runs: runs }: ClusterInfo) =>
    [
      state === 'running' ? formatJobs(jobs) : stateText(state, trans),
      runs > 0 ? trans._n('%1 run', '%1 runs', runs) : ''
    ]
      .filter(part => part !== '')
      .join(' · ');
  const running = () =>
    there().map((cluster): IRunningSessions.IRunningItem => {
      const { name, kind, state, created } = cluster;
      return {
        className: 'jp-dtf-running',
        context: name,
        icon: () => dtfIcon,
        label: () => name,
        labelTitle: () => trans.__('Cluster %1 (%2), started %3', name, kind, momentText(created)),
        detail: () => detail(cluster),
        open: () => run(CommandIDs.showPanel),
        ...(state === 'stopping' ? {} : { shutdown: () => run(CommandIDs.stopCluster, { name }) })
      };
    });
  return {
    name: trans.__('TensorFlow Clusters'),
    running,
    runningChanged: differences(dtf.clusters.changed, running),
    refreshRunning: () => void dtf.server.check(),
    // JupyterLab has already asked for confirmation.
    shutdownAll: () => {
      for (const { name } of there().filter(({ state }) => state !== 'stopping')) {
        void attempt(trans, () => dtf.clusters.stop(name));
      }
    },
    shutdownLabel: trans.__('Stop Cluster'),
    shutdownAllLabel: trans.__('Stop All'),
    shutdownAllConfirmationText: () => {
      const runs = there().reduce((sum, { active_runs: active }) => sum + active, 0);
      const sure = trans.__('Are you sure you want to stop all clusters?');
      return runs === 0
        ? sure
        : `${sure} ${trans._n('%1 run on them will be stopped.', '%1 runs on them will be stopped.', runs)}`;
    },
    shutdownItemIcon: stopIcon
  };
}

/** The runs that have not ended. */
export function runningRuns(dtf: IDtf, trans: TranslationBundle, run: Execute): IRunningSessions.IManager {
  const active = () => dtf.runs.runs.filter(({ state }) => !isFinal(state));
  const detail = (info: RunInfo) =>
    [info.cluster, info.state === 'running' ? '' : stateText(info.state, trans), ...factsOf(info)]
      .filter(part => part !== '')
      .join(' · ');
  const running = () =>
    active().map((info): IRunningSessions.IRunningItem => ({
      className: 'jp-dtf-running',
      context: info.id,
      icon: () => runIcon,
      label: () => info.name,
      labelTitle: () => trans.__('Run %1 on %2, %3', info.name, info.cluster, momentText(info.created)),
      detail: () => detail(info),
      open: () => run(CommandIDs.openRun, { run: info.id }),
      ...(canStop(info.state) ? { shutdown: () => run(CommandIDs.stopRun, { run: info.id }) } : {})
    }));
  return {
    name: trans.__('TensorFlow Runs'),
    running,
    runningChanged: differences(dtf.runs.changed, running),
    refreshRunning: () => void dtf.server.check(),
    shutdownAll: () => {
      for (const { id } of active().filter(({ state }) => canStop(state))) {
        void attempt(trans, () => dtf.runs.stop(id));
      }
    },
    shutdownLabel: trans.__('Stop Run'),
    shutdownAllLabel: trans.__('Stop All'),
    shutdownAllConfirmationText: trans.__('Are you sure you want to stop all runs? Their clusters keep running.'),
    shutdownItemIcon: stopIcon
  };
}

/**
 * Emitted only when the displayed list has changed, because its source is emitted ten times a second, and JupyterLab
 * redraws the whole list each time.
 */
function differences(
  source: ISignal<unknown, unknown>,
  running: () => IRunningSessions.IRunningItem[]
): ISignal<object, void> {
  const changed = new Signal<object, void>({});
  const words = () =>
    JSON.stringify(running().map(item => [item.context, item.label(), item.detail?.(), item.shutdown !== undefined]));
  let before = words();
  source.connect(() => {
    const now = words();
    if (now !== before) {
      before = now;
      changed.emit();
    }
  });
  return changed;
}
