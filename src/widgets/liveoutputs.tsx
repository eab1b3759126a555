import { ReactWidget } from '@jupyterlab/apputils';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { MessageLoop } from '@lumino/messaging';
import { PanelLayout, Widget } from '@lumino/widgets';
import React from 'react';

import { ClusterCard, RunCard } from '../views/outputcards';
import { useSignals } from '../views/hooks';
import type { SearchActions } from '../views/search/searchview';
import { RunDashboard } from './dashboard';
import { SearchPane } from './searchpane';
import type { DashboardOptions } from './tabs/dashboardtab';

export const RUN_MIME = 'application/vnd.jupyter-dtf.run+json';
export const RUN_CARD_MIME = 'application/vnd.jupyter-dtf.run-card+json';
export const SEARCH_MIME = 'application/vnd.jupyter-dtf.search+json';
export const CLUSTER_MIME = 'application/vnd.jupyter-dtf.cluster+json';

/** The options of outputs: those of a dashboard, and the actions of the outputs' buttons. */
export interface OutputOptions extends Omit<DashboardOptions, 'run'> {
  searches: SearchActions;
  openRun(run: string): void;
  scaleCluster(name: string): void;
  stopCluster(name: string): void;
}

/**
 * A live view, with a static image that the notebook stores along with it and that is shown once the server no longer
 * knows its subject.
 */
abstract class LiveOutput extends Widget implements IRenderMime.IRenderer {
  constructor(protected readonly _options: OutputOptions) {
    super();
    this.layout = new PanelLayout();
    this.addClass('jp-dtf-run-output');
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const id = this.idOf(model.data);
    const { dtf } = this._options;
    this._picture = model.data['image/svg+xml'] as string | undefined;
    if (id !== this._id) {
      this._id = id;
      this._show(this.live(id));
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

  /** The id of the subject, such as a run. */
  protected abstract idOf(data: IRenderMime.IMimeModel['data']): string;
  /** Create the live view. */
  protected abstract live(id: string): Widget;
  /** Whether the server knows the subject with this id. */
  protected abstract isKnown(id: string): boolean;
  /** The alternative text of the image. */
  protected abstract pictureText(id: string): string;

  /** Show the image if there is no live view, and the live view once it is back. */
  private _fallBack(): void {
    const { runs, server } = this._options.dtf;
    const gone = (runs.isReady && !this.isKnown(this._id)) || server.health === 'missing';
    const picture = gone && this._picture !== undefined;
    this.toggleClass('jp-mod-gone', gone); // in an ipywidget, the widget's own rendering is shown instead
    this.toggleClass('jp-mod-picture', picture);
    if (picture && !this._image) {
      this._image = document.createElement('img');
      this._image.alt = this.pictureText(this._id);
      // As an image, so that no script in it runs.
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

  private _id = '';
  private _picture: string | undefined;
  private _image: HTMLImageElement | null = null;
}

/** `{"run": id}`: the run's live plots with its header. */
export class RunOutput extends LiveOutput {
  protected override idOf(data: IRenderMime.IMimeModel['data']): string {
    return (data[RUN_MIME] as { run: string }).run;
  }

  protected override live(run: string): Widget {
    return new RunDashboard({ ...this._options, run }, true);
  }

  protected override isKnown(run: string): boolean {
    return this._options.dtf.runs.get(run) !== undefined;
  }

  protected override pictureText(run: string): string {
    return this._options.trans.__('Saved plots of run %1', run);
  }
}

/** `{"search": id}`: the view of a search. Until the server has received a trial, there is nothing to show. */
export class SearchOutput extends LiveOutput {
  protected override idOf(data: IRenderMime.IMimeModel['data']): string {
    return (data[SEARCH_MIME] as { search: string }).search;
  }

  protected override live(search: string): Widget {
    const { dtf, trans, searches } = this._options;
    return new SearchPane({ search, dtf, trans, ...searches });
  }

  protected override isKnown(search: string): boolean {
    return this._options.dtf.runs.runs.some(run => run.trial?.search === search);
  }

  protected override pictureText(search: string): string {
    return this._options.trans.__('Saved image of search %1', search);
  }
}

/** `{"run": id}`: the run's card. */
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

/** `{"name": cluster}`: the cluster's card. */
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
    return <p className="jp-dtf-faint">{trans.__('The run %1 no longer exists.', run)}</p>;
  }
  return <RunCard run={info} trans={trans} onOpen={() => options.openRun(run)} onStop={() => options.stop(run)} />;
}
