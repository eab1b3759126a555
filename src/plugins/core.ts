import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';

import { RestApi } from '../api/rest';
import { EventSocket } from '../api/socket';
import { ClustersModel } from '../model/clusters';
import { Preferences } from '../model/preferences';
import { RunsModel } from '../model/runs';
import { ServerModel } from '../model/server';
import { IDtf } from '../tokens';
import { VERSION } from '../version';

/** The only connection to the server extension, and the models that it updates. */
export const core: JupyterFrontEndPlugin<IDtf> = {
  id: 'jupyter_dtf:core',
  description: 'Keeps the state of clusters and runs up to date.',
  autoStart: true,
  provides: IDtf,
  activate: (app: JupyterFrontEnd): IDtf => {
    const settings = app.serviceManager.serverSettings;
    const api = new RestApi(settings);
    const socket = new EventSocket(settings);
    const dtf: IDtf = {
      api,
      server: new ServerModel(api, socket, VERSION),
      clusters: new ClustersModel(api, socket),
      runs: new RunsModel(api, socket),
      preferences: new Preferences()
    };
    dtf.server.changed.connect(() => {
      if (dtf.server.health === 'ok') {
        dtf.clusters.refresh().catch(reason => console.warn('jupyter_dtf: could not fetch the templates:', reason));
      }
    });
    // Connect only after JupyterLab itself has started.
    void app.started.then(() => socket.connect());
    return dtf;
  }
};
