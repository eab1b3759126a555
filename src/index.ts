import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { alarms } from './plugins/alarmnotices';
import { clusters } from './plugins/clustercommands';
import { core } from './plugins/core';
import { designer } from './plugins/designer';
import { example } from './plugins/example';
import { history } from './plugins/runhistory';
import { notebook } from './plugins/notebook';
import { outputs } from './plugins/outputs';
import { panel } from './plugins/panel';
import { runningSessions } from './plugins/runningsessions';
import { runs } from './plugins/runcommands';
import { runsDashboards } from './plugins/runsdashboards';
import { searches } from './plugins/searches';
import { settings } from './plugins/settings';
import { statusBar } from './plugins/statusbaritem';
import { tour } from './plugins/tourplugin';

export { IDtf, INotebookClusters } from './tokens';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  core,
  settings,
  clusters,
  runs,
  searches,
  panel,
  designer,
  example,
  notebook,
  outputs,
  alarms,
  history,
  runsDashboards,
  runningSessions,
  statusBar,
  tour
];

export default plugins;
