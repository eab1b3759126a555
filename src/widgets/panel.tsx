import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { DesignsModel } from '../model/designs';
import type { IDtf } from '../tokens';
import { Advice } from '../views/advice';
import { ClusterActions, Clusters } from '../views/clusters';
import { Designs } from '../views/designs';
import { useSignals } from '../views/hooks';
import { Runs } from '../views/runs';

/** What the panel can have done; the plugin says how. */
export interface PanelActions extends ClusterActions {
  newCluster(): void;
  refresh(): void;
  startTwo(): void;
  openExample(): void;
  startTemplate(name: string): void;
  templateMenu(name: string, at: HTMLElement): void;
  openRun(id: string): void;
  stopRun(id: string): void;
  runMenu(id: string, at: HTMLElement): void;
  newDesign(): void;
  openDesign(path: string): void;
  startDesign(path: string): void;
}

/** Whether the example notebook is among the user's files. */
export interface IExample {
  readonly isThere: boolean;
  readonly changed: ISignal<unknown, void>;
}

/** The side panel: clusters, runs and designs. */
export class DtfPanel extends ReactWidget {
  constructor(
    private readonly _dtf: IDtf,
    private readonly _actions: PanelActions,
    private readonly _example: IExample,
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
        example={this._example}
        designs={this._designs}
        trans={this._trans}
      />
    );
  }
}

function Panel(props: {
  dtf: IDtf;
  actions: PanelActions;
  example: IExample;
  designs: DesignsModel | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { dtf, actions, example, designs, trans } = props;
  const { server, clusters, runs } = dtf;
  useSignals(server.changed, clusters.changed, runs.changed, example.changed, ...(designs ? [designs.changed] : []));
  return (
    <>
      <h2 className="jp-dtf-panel-title">{trans.__('Distributed TensorFlow')}</h2>
      <Advice
        health={server.health}
        serverVersion={server.status?.version ?? ''}
        pageVersion={server.version}
        trans={trans}
        onRetry={() => server.retry()}
      />
      {server.health !== 'missing' && (
        <>
          <Clusters
            clusters={clusters.clusters}
            templates={clusters.idleTemplates}
            ready={clusters.isReady}
            hasExample={example.isThere}
            actions={actions}
            trans={trans}
            onNew={() => actions.newCluster()}
            onRefresh={() => actions.refresh()}
            onStartTwo={() => actions.startTwo()}
            onExample={() => actions.openExample()}
            onStartTemplate={name => actions.startTemplate(name)}
            onTemplateMenu={(name, at) => actions.templateMenu(name, at)}
          />
          <Runs
            runs={runs.runs}
            ready={runs.isReady}
            trans={trans}
            onOpen={id => actions.openRun(id)}
            onStop={id => actions.stopRun(id)}
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
