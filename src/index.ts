import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { clusters } from './plugins/clusters';
import { core } from './plugins/core';
import { designer } from './plugins/designer';
import { notebook } from './plugins/notebook';
import { outputs } from './plugins/outputs';
import { panel } from './plugins/panel';
import { runs } from './plugins/runs';
import { settings } from './plugins/settings';

export { IDtf } from './tokens';

const plugins: JupyterFrontEndPlugin<unknown>[] = [core, settings, clusters, runs, panel, designer, notebook, outputs];

export default plugins;
