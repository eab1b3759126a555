import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ClustersModel } from '../model/clusters';
import type { NotebookCluster } from '../model/notebookcluster';
import { useSignals } from '../views/hooks';
import { NotebookClusterButton } from '../views/notebookclusterbutton';

/** The notebook's cluster and its state in the notebook's toolbar; a click opens the menu. */
export class NotebookClusterTool extends ReactWidget {
  constructor(
    private readonly _chosen: NotebookCluster,
    private readonly _clusters: ClustersModel,
    private readonly _trans: TranslationBundle,
    private readonly _menu: (at: HTMLElement) => void
  ) {
    super();
    this.addClass('jp-dtf-notebook-cluster');
  }

  protected override render(): React.ReactElement {
    return <Live chosen={this._chosen} clusters={this._clusters} trans={this._trans} menu={this._menu} />;
  }
}

function Live(props: {
  chosen: NotebookCluster;
  clusters: ClustersModel;
  trans: TranslationBundle;
  menu: (at: HTMLElement) => void;
}): React.ReactElement {
  const { chosen, clusters } = props;
  useSignals(chosen.changed, clusters.changed);
  return (
    <NotebookClusterButton
      name={chosen.name}
      cluster={clusters.get(chosen.name)}
      ready={clusters.isReady}
      trans={props.trans}
      onClick={props.menu}
    />
  );
}
