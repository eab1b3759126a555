import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import React from 'react';

import type { DesignsModel } from '../model/designs';
import type { ServerHealth } from '../model/server';
import type { IDtf, INotebookClusters } from '../tokens';
import { Advice } from '../views/serveradvice';
import { ClusterActions, Clusters } from '../views/clusterlist';
import { Designs } from '../views/designlist';
import { useSignals } from '../views/hooks';
import { Runs } from '../views/runlist';

/** The panel's actions; provided by the plugin. */
export interface PanelActions extends ClusterActions {
  newCluster(): void;
  refresh(): void;
  more(at: HTMLElement): void;
  startTwo(): void;
  openExample(): void;
  startTemplate(name: string): void;
  templateMenu(name: string, at: HTMLElement): void;
  openRun(id: string): void;
  openSearch(id: string): void;
  stopRun(id: string): void;
  continueRun(id: string): void;
  resumeRun(id: string, at: HTMLElement): void;
  runMenu(id: string, at: HTMLElement): void;
  newDesign(): void;
  openDesign(path: string): void;
  startDesign(path: string): void;
}

const NEVER = new Signal<object, void>({});

/** The side panel: clusters, runs and designs. */
export class DtfPanel extends ReactWidget {
  constructor(
    private readonly _dtf: IDtf,
    private readonly _actions: PanelActions,
    private readonly _notebooks: INotebookClusters | null,
    private readonly _designs: DesignsModel | null,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-dtf-panel');
  }

  protected override render(): React.ReactElement {
    return (
      <Panel
        dtf={this._dtf}
        actions={this._actions}
        notebooks={this._notebooks}
        designs={this._designs}
        trans={this._trans}
      />
    );
  }
}

/**
 * Whether there is anything to show below the advice: current data of the server extension, or data from before the
 * connection was lost.
 */
function shows(health: ServerHealth, ready: boolean): boolean {
  return health !== 'missing' && health !== 'foreign' && (health !== 'blocked' || ready);
}

function Panel(props: {
  dtf: IDtf;
  actions: PanelActions;
  notebooks: INotebookClusters | null;
  designs: DesignsModel | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { dtf, actions, notebooks, designs, trans } = props;
  const { server, clusters, runs } = dtf;
  useSignals(
    server.changed,
    clusters.changed,
    runs.changed,
    notebooks?.changed ?? NEVER,
    ...(designs ? [designs.changed] : [])
  );
  return (
    <>
      <h2 className="jp-dtf-panel-title">{trans.__('Distributed TensorFlow')}</h2>
      <Advice
        health={server.health}
        serverVersion={server.status?.version ?? ''}
        serverProtocol={server.status?.protocol ?? 0}
        serverOldest={server.status?.oldest ?? 0}
        pageVersion={server.version}
        socketUrl={server.socketUrl}
        trans={trans}
        onRetry={() => server.retry()}
        onReload={() => window.location.reload()}
      />
      {shows(server.health, clusters.isReady) && (
        <>
          <Clusters
            clusters={clusters.clusters}
            templates={clusters.idleTemplates}
            ready={clusters.isReady}
            connected={notebooks?.current?.name ?? ''}
            actions={actions}
            trans={trans}
            onNew={() => actions.newCluster()}
            onRefresh={() => actions.refresh()}
            onMore={at => actions.more(at)}
            onStartTwo={() => actions.startTwo()}
            onExample={() => actions.openExample()}
            onStartTemplate={name => actions.startTemplate(name)}
            onTemplateMenu={(name, at) => actions.templateMenu(name, at)}
          />
          <Runs
            runs={runs.current}
            ready={runs.isReady}
            trans={trans}
            onOpen={id => actions.openRun(id)}
            onOpenSearch={id => actions.openSearch(id)}
            onStop={id => actions.stopRun(id)}
            onContinue={id => actions.continueRun(id)}
            onResume={(id, at) => actions.resumeRun(id, at)}
            onMenu={(id, at) => actions.runMenu(id, at)}
          />
          {designs && (
            <Designs
              paths={designs.paths}
              trans={trans}
              onNew={() => actions.newDesign()}
              onOpen={path => actions.openDesign(path)}
              onStart={path => actions.startDesign(path)}
            />
          )}
        </>
      )}
    </>
  );
}
