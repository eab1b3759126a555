import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';

import { KernelModels } from '../model/kernels';
import type { IDtf } from '../tokens';
import type { PlacementServices } from '../views/designer/placementservices';
import type { DesignerDocument } from '../widgets/designer';

/** What the placement half of one document asks of the server, of kernels and of notebooks. */
export function placementServices(
  app: JupyterFrontEnd,
  dtf: IDtf,
  notebooks: INotebookTracker | null,
  document: DesignerDocument
): PlacementServices {
  const { contents, sessions } = app.serviceManager;
  const { api, clusters, runs } = dtf;
  const kernels = new KernelModels(sessions);
  return {
    place: (design, signal) => api.placeDesign(design, signal),
    profile: (design, cluster, signal) => {
      const { batch_size: batch, microbatches, replicas } = design.run;
      const source = design.model?.source;
      if (source?.kind !== 'kernel') {
        return api.profileDesign(design, cluster, signal);
      }
      const variable = { path: source.path, name: source.variable };
      const step = { batchSize: Math.floor(batch / replicas), microbatches };
      return kernels.calibrate(variable, cluster, step, signal);
    },
    clusters: () => clusters.clusters.filter(({ state }) => state === 'running').map(({ name }) => name),
    clustersChanged: clusters.changed,
    modelFiles: async () => {
      const folder = PathExt.dirname(document.context.localPath);
      const found = await contents.get(folder, { type: 'directory', content: true });
      return (found.content as { name: string; path: string; type: string }[])
        .filter(({ name, type }) => name.endsWith('.keras') || type === 'directory')
        .map(({ path }) => path);
    },
    describeFile: (path, signal) => api.describeModel(path, signal),
    kernelVariables: signal => kernels.variables(signal),
    describeVariable: (variable, signal) => kernels.describe(variable, signal),
    runs: () => runs.runs.filter(({ strategy }) => strategy === 'pipeline'),
    runsChanged: runs.changed,
    runPlacement: run => api.runPlacement(run),
    insertCode: code => {
      const panel = notebooks?.currentWidget;
      const design = document.context.localPath;
      if (!panel) {
        Clipboard.copyToSystem(code(design));
        return false;
      }
      const folder = PathExt.dirname(panel.context.localPath);
      NotebookActions.insertBelow(panel.content);
      panel.content.activeCell?.model.sharedModel.setSource(code(PathExt.relative(folder, design)));
      app.shell.activateById(panel.id);
      return true;
    }
  };
}
