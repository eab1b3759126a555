import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Clipboard, Dialog, ICommandPalette, Notification, showDialog } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import type { ClusterRequest, ClusterState } from '../api/schema';
import { dtfIcon } from '../icons';
import { CommandIDs, IDtf } from '../tokens';
import { showNewCluster, showScale } from '../widgets/dialogs';
import { attempt, choose, describe } from './commandhelpers';

/** Commands that start, scale and stop clusters. */
export const clusters: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:clusters',
  description: 'Commands for clusters.',
  autoStart: true,
  requires: [IDtf],
  optional: [ICommandPalette, ILauncher, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    dtf: IDtf,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const { commands } = app;
    const category = trans.__('Distributed TensorFlow');
    const isEnabled = () => dtf.server.health === 'ok';
    const byName = describe({ name: trans.__('The name of the cluster') });

    const pick = (given: unknown, title: string, states: ClusterState[]) =>
      choose(
        given,
        dtf.clusters.clusters
          .filter(cluster => states.includes(cluster.state))
          .map(({ name, kind }) => ({ value: name, label: `${name} (${kind})` })),
        title,
        trans.__('There is no such cluster. Start one in the panel.')
      );

    commands.addCommand(CommandIDs.newCluster, {
      label: args => (args['isPalette'] ? trans.__('New Cluster…') : trans.__('TensorFlow Cluster')),
      caption: trans.__('Start a cluster of TensorFlow processes'),
      icon: args => (args['isPalette'] ? undefined : dtfIcon),
      describedBy: { args: { type: 'object', properties: { isPalette: { type: 'boolean' } } } },
      isEnabled,
      execute: () => {
        const draw = (request: ClusterRequest) =>
          void commands.execute(CommandIDs.newDesign, { request: request as ReadonlyPartialJSONObject });
        return attempt(trans, () => showNewCluster(dtf.clusters, trans, draw));
      }
    });
    commands.addCommand(CommandIDs.startCluster, {
      label: trans.__('Start Two Local Workers'),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            request: {
              type: 'object',
              description: trans.__('The body of POST clusters; two local workers if omitted')
            }
          }
        }
      },
      isEnabled,
      execute: args => attempt(trans, () => dtf.clusters.start((args['request'] as ClusterRequest | undefined) ?? {}))
    });
    commands.addCommand(CommandIDs.startTemplate, {
      label: trans.__('Start Cluster from Template…'),
      describedBy: describe({ name: trans.__('The name of the template') }),
      isEnabled,
      execute: async args => {
        const items = dtf.clusters.idleTemplates.map(({ name }) => ({ value: name, label: name }));
        const name = await choose(args['name'], items, trans.__('Start which template?'), trans.__('No templates.'));
        const template = dtf.clusters.templates.find(other => other.name === name);
        if (template) {
          await attempt(trans, () => dtf.clusters.startTemplate(template));
        }
      }
    });
    commands.addCommand(CommandIDs.forgetTemplate, {
      label: trans.__('Delete Template'),
      describedBy: describe({ name: trans.__('The name of the template') }),
      isEnabled,
      execute: async args => {
        const items = dtf.clusters.templates.map(({ name }) => ({ value: name, label: name }));
        const name = await choose(args['name'], items, trans.__('Delete which template?'), trans.__('No templates.'));
        if (name !== null) {
          await attempt(trans, () => dtf.clusters.forgetTemplate(name));
        }
      }
    });
    commands.addCommand(CommandIDs.scaleCluster, {
      label: trans.__('Scale Cluster…'),
      describedBy: byName,
      isEnabled,
      execute: async args => {
        const name = await pick(args['name'], trans.__('Scale which cluster?'), ['running']);
        const cluster = name === null ? undefined : dtf.clusters.get(name);
        if (cluster) {
          await showScale(dtf.clusters, cluster, trans);
        }
      }
    });
    commands.addCommand(CommandIDs.stopCluster, {
      label: args => (args['isMenu'] ? trans.__('Stop %1', args['name']) : trans.__('Stop Cluster…')),
      describedBy: byName,
      isEnabled,
      execute: async args => {
        const states: ClusterState[] = ['running', 'starting', 'lost', 'failed'];
        const name = await pick(args['name'], trans.__('Stop which cluster?'), states);
        const cluster = name === null ? undefined : dtf.clusters.get(name);
        if (!cluster) {
          return;
        }
        if (cluster.active_runs > 0) {
          const { button } = await showDialog({
            title: trans.__('Stop %1?', cluster.name),
            body: trans._n('%1 run on it will be stopped.', '%1 runs on it will be stopped.', cluster.active_runs),
            buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Stop') })]
          });
          if (!button.accept) {
            return;
          }
        }
        await attempt(trans, () => dtf.clusters.stop(cluster.name));
      }
    });
    commands.addCommand(CommandIDs.daskDashboard, {
      label: trans.__('Open Dask Dashboard'),
      describedBy: byName,
      isEnabled,
      execute: async args => {
        const name = await pick(args['name'], trans.__('Open the dashboard of which cluster?'), ['running']);
        const url = name === null ? undefined : await attempt(trans, () => dtf.clusters.daskDashboard(name));
        if (url?.startsWith('/')) {
          // A path on the Jupyter server, which need not be the origin of this page.
          const { baseUrl } = app.serviceManager.serverSettings;
          window.open(new URL(url, baseUrl).href, '_blank', 'noopener');
        }
      }
    });
    commands.addCommand(CommandIDs.copyClusterName, {
      label: trans.__('Copy Name'),
      describedBy: byName,
      execute: args => Clipboard.copyToSystem(args['name'] as string)
    });
    commands.addCommand(CommandIDs.copyClusterSpec, {
      label: trans.__('Copy ClusterSpec'),
      describedBy: byName,
      isEnabled,
      execute: async args => {
        const name = await pick(args['name'], trans.__('Copy the ClusterSpec of which cluster?'), ['running']);
        const cluster = name === null ? undefined : dtf.clusters.get(name);
        if (cluster) {
          const { kind, jobs } = cluster;
          const preview = await attempt(trans, () => dtf.clusters.preview({ kind, jobs }));
          if (preview) {
            Clipboard.copyToSystem(JSON.stringify(preview.cluster_spec, null, 2));
          }
        }
      }
    });
    commands.addCommand(CommandIDs.keepTemplate, {
      label: trans.__('Save as Template'),
      describedBy: byName,
      isEnabled,
      execute: async args => {
        const name = await pick(args['name'], trans.__('Save which cluster as a template?'), ['running', 'starting']);
        const cluster = name === null ? undefined : dtf.clusters.get(name);
        if (cluster) {
          await attempt(trans, async () => {
            await dtf.clusters.keepCluster(cluster);
            Notification.success(trans.__('%1 was saved as a template.', cluster.name), { autoClose: 3000 });
          });
        }
      }
    });
    commands.addCommand(CommandIDs.refresh, {
      label: trans.__('Refresh Clusters and Runs'),
      describedBy: describe({}),
      execute: async () => {
        dtf.server.retry();
        await attempt(trans, () => dtf.clusters.refresh());
      }
    });

    dtf.server.changed.connect(() => commands.notifyCommandChanged());
    for (const command of [
      CommandIDs.newCluster,
      CommandIDs.startCluster,
      CommandIDs.startTemplate,
      CommandIDs.forgetTemplate,
      CommandIDs.scaleCluster,
      CommandIDs.stopCluster,
      CommandIDs.daskDashboard,
      CommandIDs.copyClusterSpec,
      CommandIDs.keepTemplate,
      CommandIDs.refresh
    ]) {
      palette?.addItem({ command, category, args: { isPalette: true } });
    }
    launcher?.add({ command: CommandIDs.newCluster, category, rank: 10 });
  }
};
