import { Token } from '@lumino/coreutils';

import type { ClustersModel } from './model/clusters';
import type { Preferences } from './model/preferences';
import type { RunsModel } from './model/runs';
import type { ServerModel } from './model/server';

/** What the plugins of this extension share: one connection, and the models that it keeps true. */
export interface IDtf {
  readonly server: ServerModel;
  readonly clusters: ClustersModel;
  readonly runs: RunsModel;
  readonly preferences: Preferences;
}

export const IDtf = new Token<IDtf>('jupyter_dtf:IDtf', 'Clusters and runs of distributed TensorFlow, as they change.');

export namespace CommandIDs {
  export const showPanel = 'jupyter-dtf:show-panel';
  export const refresh = 'jupyter-dtf:refresh';
  export const newCluster = 'jupyter-dtf:new-cluster';
  export const startCluster = 'jupyter-dtf:start-cluster';
  export const startTemplate = 'jupyter-dtf:start-template';
  export const forgetTemplate = 'jupyter-dtf:forget-template';
  export const scaleCluster = 'jupyter-dtf:scale-cluster';
  export const stopCluster = 'jupyter-dtf:stop-cluster';
  export const connectNotebook = 'jupyter-dtf:connect-notebook';
  export const daskDashboard = 'jupyter-dtf:open-dask-dashboard';
  export const copyClusterName = 'jupyter-dtf:copy-cluster-name';
  export const copyClusterSpec = 'jupyter-dtf:copy-cluster-spec';
  export const keepTemplate = 'jupyter-dtf:keep-template';
  export const openRun = 'jupyter-dtf:open-run';
  export const stopRun = 'jupyter-dtf:stop-run';
  export const forgetRun = 'jupyter-dtf:forget-run';
  export const copyRunId = 'jupyter-dtf:copy-run-id';
  export const openExample = 'jupyter-dtf:open-example';
}
