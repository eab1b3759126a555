import { ReactWidget } from '@jupyterlab/apputils';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { MessageLoop } from '@lumino/messaging';
import { PanelLayout, Widget } from '@lumino/widgets';
import React from 'react';

import { ClusterCard, RunCard } from '../views/outputcards';
import { useSignals } from '../views/hooks';
import { RunDashboard } from './dashboard';
import type { DashboardOptions } from './tabs/dashboardtab';

export const RUN_MIME = 'application/vnd.jupyter-dtf.run+json';
export const RUN_CARD_MIME = 'application/vnd.jupyter-dtf.run-card+json';
export const CLUSTER_MIME = 'application/vnd.jupyter-dtf.cluster+json';

/** What outputs need: all that a dashboard does, and what their buttons do. */
export interface OutputOptions extends Omit<DashboardOptions, 'run'> {
  openRun(run: string): void;
  scaleCluster(name: string): void;
  stopCluster(name: string): void;
}

/**
 * `{"run": id}` is the run's live plots with its header. When the server does not know the run any more, it is the still
 * picture that the notebook keeps beside it.
 */
export class RunOutput extends Widget implements IRenderMime.IRenderer {
  constructor(private readonly _options: OutputOptions) {
    super();
    this.layout = new PanelLayout();
    this.addClass('jp-dtf-run-output');
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { run } = model.data[RUN_MIME] as { run: string };
    const { dtf } = this._options;
    this._picture = model.data['image/svg+xml'] as string | undefined;
    if (run !== this._run) {
      this._run = run;
      this._show(new RunDashboard({ ...this._options, run }, true));
      dtf.runs.changed.connect(this._fallBack, this);
      dtf.server.changed.connect(this._fallBack, this);
    }
    this._fallBack();
    return Promise.resolve();
  }

  override dispose(): void {
    this._options.dtf.runs.changed.disconnect(this._fallBack, this);
    this._options.dtf.server.changed.disconnect(this._fallBack, this);
    super.dispose();
  }

  /** Show the picture when there is no live run to show, and the run when it comes back. */
  private _fallBack(): void {
    const { runs, server } = this._options.dtf;
    const gone = (runs.isReady && !runs.get(this._run)) || server.health === 'missing';
    const picture = gone && this._picture !== undefined;
    this.toggleClass('jp-mod-picture', picture);
    if (picture && !this._image) {
      this._image = document.createElement('img');
      this._image.alt = this._options.trans.__('Plots of the run %1, as they were', this._run);
      // As an image, so that nothing in it runs.
      this._image.src = `data:image/svg+xml;utf8,${encodeURIComponent(this._picture!)}`;
      this.node.append(this._image);
    } else if (!picture && this._image) {
      this._image.remove();
      this._image = null;
    }
  }

  private _show(widget: Widget): void {
    const layout = this.layout as PanelLayout;
    layout.widgets.slice().forEach(old => old.dispose());
    layout.addWidget(widget);
    MessageLoop.postMessage(widget, Widget.Msg.UpdateRequest);
  }

  private _run = '';
  private _picture: string | undefined;
  private _image: HTMLImageElement | null = null;
}

/** `{"run": id}` is the run's card. */
export class RunCardOutput extends ReactWidget implements IRenderMime.IRenderer {
  constructor(private readonly _options: OutputOptions) {
    super();
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._run = (model.data[RUN_CARD_MIME] as { run: string }).run;
    this.update();
    return this.renderPromise ?? Promise.resolve();
  }

  protected override render(): React.ReactElement {
    return <LiveRunCard run={this._run} options={this._options} />;
  }

  private _run = '';
}

/** `{"name": cluster}` is the cluster's card. */
export class ClusterOutput extends ReactWidget implements IRenderMime.IRenderer {
  constructor(private readonly _options: OutputOptions) {
    super();
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._name = (model.data[CLUSTER_MIME] as { name: string }).name;
    this.update();
    return this.renderPromise ?? Promise.resolve();
  }

  protected override render(): React.ReactElement {
    return <LiveClusterCard name={this._name} options={this._options} />;
  }

  private _name = '';
}

function LiveClusterCard(props: { name: string; options: OutputOptions }): React.ReactElement {
  const { name, options } = props;
  const { dtf, trans } = options;
  useSignals(dtf.clusters.changed);
  const cluster = dtf.clusters.get(name);
  if (!cluster) {
    return <p className="jp-dtf-faint">{trans.__('The cluster %1 is not running.', name)}</p>;
  }
  return (
    <ClusterCard
      cluster={cluster}
      trans={trans}
      onScale={() => options.scaleCluster(name)}
      onStop={() => options.stopCluster(name)}
    />
  );
}

function LiveRunCard(props: { run: string; options: OutputOptions }): React.ReactElement {
  const { run, options } = props;
  const { dtf, trans } = options;
  useSignals(dtf.runs.changed);
  const info = dtf.runs.get(run);
  if (!info) {
    return <p className="jp-dtf-faint">{trans.__('There is no run %1 any more.', run)}</p>;
  }
  return <RunCard run={info} trans={trans} onOpen={() => options.openRun(run)} onStop={() => options.stop(run)} />;
}
