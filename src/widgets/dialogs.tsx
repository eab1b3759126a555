import { Dialog, ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ClusterInfo, ClusterRequest } from '../api/schema';
import type { ClustersModel } from '../model/clusters';
import { NewCluster } from '../views/newcluster';
import { Scale } from '../views/scaleform';

/** JupyterLab's dialog around a form with buttons of its own, so that it can stay open to show problems. */
class FormDialog extends Dialog<void> {
  constructor(title: string, body: React.ReactElement) {
    super({ title, body: ReactWidget.create(body), buttons: [], hasClose: true, focusNodeSelector: 'input, select' });
    this.addClass('jp-dtf-dialog');
  }

  override handleEvent(event: Event): void {
    if (event.type === 'keydown') {
      const { key, shiftKey } = event as KeyboardEvent;
      if (key === 'Tab') {
        this._keepFocus(event, shiftKey);
        return;
      }
      if (key !== 'Escape') {
        return; // Enter and arrow keys belong to the form; Dialog would pass them to buttons that it does not have
      }
    }
    super.handleEvent(event);
  }

  private _keepFocus(event: Event, backwards: boolean): void {
    const all = [
      ...this.node.querySelectorAll<HTMLElement>('button:enabled, input:enabled, select:enabled, [tabindex="0"]')
    ];
    const [first, last] = [all[0], all[all.length - 1]];
    if (document.activeElement === (backwards ? first : last)) {
      event.preventDefault();
      (backwards ? last : first)?.focus();
    }
  }
}

/** Ask for a new cluster and start it; null if none was started. */
export async function showNewCluster(
  clusters: ClustersModel,
  trans: TranslationBundle,
  draw: (request: ClusterRequest) => void,
  initial?: ClusterRequest
): Promise<ClusterInfo | null> {
  let started: ClusterInfo | null = null;
  const kinds = await clusters.kinds();
  const actions = {
    preview: (request: ClusterRequest) => clusters.preview(request),
    start: async (request: ClusterRequest) => {
      started = await clusters.start(request);
      dialog.reject();
    },
    keep: (name: string, request: ClusterRequest) => clusters.keepTemplate(name, request),
    design: (request: ClusterRequest) => {
      dialog.reject();
      draw(request);
    },
    cancel: () => dialog.reject()
  };
  const form = (
    <NewCluster kinds={kinds} actions={actions} trans={trans} {...(initial === undefined ? {} : { initial })} />
  );
  const dialog = new FormDialog(trans.__('New cluster'), form);
  await dialog.launch();
  return started;
}

/** Ask for new numbers of tasks and scale the cluster. */
export async function showScale(
  clusters: ClustersModel,
  cluster: ClusterInfo,
  trans: TranslationBundle
): Promise<void> {
  const scale = async (jobs: Record<string, number>) => {
    await clusters.scale(cluster.name, jobs);
    dialog.reject();
  };
  const dialog = new FormDialog(
    trans.__('Scale %1', cluster.name),
    <Scale cluster={cluster} trans={trans} onScale={scale} onCancel={() => dialog.reject()} />
  );
  await dialog.launch();
}
