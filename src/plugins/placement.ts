import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard, Notification } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { INotebookTracker, NotebookActions } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import { CodePlace, fitCode } from '../model/notebookcode';
import { KernelModels } from '../model/kernels';
import type { IDtf } from '../tokens';
import type { PlacementServices } from '../views/designer/placement/placementservices';
import type { OpenDesign } from '../widgets/designeroptions';
import { codeAbove } from './notebook';

/** The services that the placement half of a document uses: requests to the server, to kernels and to notebooks. */
export function placementServices(
  app: JupyterFrontEnd,
  dtf: IDtf,
  notebooks: INotebookTracker | null,
  document: OpenDesign,
  trans: TranslationBundle
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
    clusterName: () => document.clusterName,
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
    describeVariable: (variable, signal, chosen) => kernels.describe(variable, signal, chosen),
    runs: () => runs.runs,
    runsChanged: runs.changed,
    runPlacement: run => api.runPlacement(run),
    insertCode: async () => {
      if (!(await save(document, trans))) {
        return null;
      }
      const live = clusters.get(document.clusterName);
      const running = live?.state === 'running' || live?.state === 'starting' ? live.name : null;
      const code = (place: CodePlace) => fitCode(document.design.design, document.context.localPath, running, place);
      const panel = notebooks?.currentWidget;
      if (!panel) {
        Clipboard.copyToSystem(code({ folder: '', cells: [] }));
        return 'clipboard';
      }
      const place = { folder: PathExt.dirname(panel.context.localPath), cells: codeAbove(panel.content) };
      NotebookActions.insertBelow(panel.content);
      panel.content.activeCell?.model.sharedModel.setSource(code(place));
      app.shell.activateById(panel.id);
      return 'notebook';
    }
  };
}

/** Save a design. False if the file does not contain the drawing afterwards; the user has been shown why. */
async function save({ context, design }: OpenDesign, trans: TranslationBundle): Promise<boolean> {
  if (!design.readOnly) {
    return context.save().then(
      () => true,
      () => false // JupyterLab has shown why
    );
  }
  if (context.model.dirty) {
    const rule = trans.__('The code trains the saved design, but its file is not writable: %1', context.path);
    Notification.error(rule);
  }
  return !context.model.dirty;
}
