import { Token } from '@lumino/coreutils';

import type { RestApi } from './api/rest';
import type { ClustersModel } from './model/clusters';
import type { NotebookClusters } from './model/notebookclusters';
import type { Preferences } from './model/preferences';
import type { RunsModel } from './model/runs';
import type { ServerModel } from './model/server';

/** The objects that the plugins of this extension share: one connection, and the models that it keeps up to date. */
export interface IDtf {
  /** The REST API, for data that no model stores. */
  readonly api: RestApi;
  readonly server: ServerModel;
  readonly clusters: ClustersModel;
  readonly runs: RunsModel;
  readonly preferences: Preferences;
}

export const IDtf = new Token<IDtf>('jupyter_dtf:IDtf', 'Clusters and runs of distributed TensorFlow, as they change.');

/** The clusters of the open notebooks. */
export type INotebookClusters = NotebookClusters;

export const INotebookClusters = new Token<INotebookClusters>(
  'jupyter_dtf:INotebookClusters',
  'The clusters of the open notebooks.'
);

/** The ids of the commands in JupyterLab. */
export const CommandIDs = {
  showPanel: 'jupyter-dtf:show-panel',
  refresh: 'jupyter-dtf:refresh',
  newCluster: 'jupyter-dtf:new-cluster',
  startCluster: 'jupyter-dtf:start-cluster',
  startTemplate: 'jupyter-dtf:start-template',
  forgetTemplate: 'jupyter-dtf:forget-template',
  scaleCluster: 'jupyter-dtf:scale-cluster',
  stopCluster: 'jupyter-dtf:stop-cluster',
  connectNotebook: 'jupyter-dtf:connect-notebook',
  disconnectNotebook: 'jupyter-dtf:disconnect-notebook',
  startForNotebook: 'jupyter-dtf:start-for-notebook',
  daskDashboard: 'jupyter-dtf:open-dask-dashboard',
  copyClusterName: 'jupyter-dtf:copy-cluster-name',
  copyClusterSpec: 'jupyter-dtf:copy-cluster-spec',
  keepTemplate: 'jupyter-dtf:keep-template',
  openRun: 'jupyter-dtf:open-run',
  openNotebookRun: 'jupyter-dtf:open-notebook-run',
  stopRun: 'jupyter-dtf:stop-run',
  pauseRun: 'jupyter-dtf:pause-run',
  continueRun: 'jupyter-dtf:continue-run',
  resumeRun: 'jupyter-dtf:resume-run',
  forgetRun: 'jupyter-dtf:forget-run',
  openHistory: 'jupyter-dtf:open-history',
  renameRun: 'jupyter-dtf:rename-run',
  tagRun: 'jupyter-dtf:tag-run',
  noteRun: 'jupyter-dtf:note-run',
  archiveRun: 'jupyter-dtf:archive-run',
  deleteRun: 'jupyter-dtf:delete-run',
  copyRunId: 'jupyter-dtf:copy-run-id',
  openSearch: 'jupyter-dtf:open-search',
  stopSearch: 'jupyter-dtf:stop-search',
  addTrials: 'jupyter-dtf:add-trials',
  openExample: 'jupyter-dtf:open-example',
  takeTour: 'jupyter-dtf:take-tour',
  chooseExample: 'jupyter-dtf:choose-example',
  newDesign: 'jupyter-dtf:new-design',
  saveDesign: 'jupyter-dtf:save-design',
  startDesign: 'jupyter-dtf:start-design',
  exportDesign: 'jupyter-dtf:export-design',
  undoDesign: 'jupyter-dtf:undo-design',
  redoDesign: 'jupyter-dtf:redo-design',
  newRunsDashboard: 'jupyter-dtf:new-runs-dashboard'
} as const;
