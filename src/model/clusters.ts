import { ISignal, Signal } from '@lumino/signaling';

import type { RestApi } from '../api/rest';
import type { ClusterInfo, ClusterRequest, KindInfo, Preview, Template } from '../api/schema';
import type { EventSocket } from '../api/socket';
import { AnswerOrder } from './answerorder';

/** The user's clusters, and the templates for new ones. */
export class ClustersModel {
  constructor(
    private readonly _api: RestApi,
    socket: EventSocket
  ) {
    socket.message.connect((_, message) => {
      if (message.type === 'clusters') {
        this._clusters = message.clusters;
        this._ready = true;
        this._changed.emit();
      }
    });
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether the list has been received at least once. */
  get isReady(): boolean {
    return this._ready;
  }

  get clusters(): readonly ClusterInfo[] {
    return this._clusters;
  }

  /** Templates that have no cluster of the same name. */
  get idleTemplates(): readonly Template[] {
    const names = new Set(this._clusters.map(cluster => cluster.name));
    return this._templates.filter(template => !names.has(template.name));
  }

  get templates(): readonly Template[] {
    return this._templates;
  }

  get(name: string): ClusterInfo | undefined {
    return this._clusters.find(cluster => cluster.name === name);
  }

  /** Fetch the templates, which the socket does not send. */
  async refresh(): Promise<void> {
    const isNewest = this._order.ask();
    const templates = await this._api.templates();
    if (isNewest()) {
      this._templates = templates;
      this._changed.emit();
    }
  }

  kinds(): Promise<KindInfo[]> {
    return this._api.kinds();
  }

  preview(request: ClusterRequest): Promise<Preview> {
    return this._api.previewCluster(request);
  }

  async start(request: ClusterRequest): Promise<ClusterInfo> {
    const info = await this._api.startCluster(request);
    this._requests.set(info.name, request);
    return info;
  }

  startTemplate(template: Template): Promise<ClusterInfo> {
    return this.start({ ...template.request, name: template.name });
  }

  async scale(name: string, jobs: Record<string, number>): Promise<void> {
    await this._api.scaleCluster(name, { jobs });
  }

  stop(name: string): Promise<void> {
    return this._api.stopCluster(name);
  }

  async daskDashboard(name: string): Promise<string> {
    return (await this._api.daskDashboard(name)).url;
  }

  async keepTemplate(name: string, request: ClusterRequest): Promise<void> {
    await this._api.keepTemplate(name, { ...request, name });
    await this.refresh();
  }

  /** Save a running cluster as a template, based on the request if it was started from this page. */
  keepCluster(cluster: ClusterInfo): Promise<void> {
    const request = this._requests.get(cluster.name) ?? { kind: cluster.kind };
    return this.keepTemplate(cluster.name, { ...request, kind: cluster.kind, jobs: cluster.jobs });
  }

  /** The request that a cluster was started with, if it was started from this page. */
  requestOf(name: string): ClusterRequest | undefined {
    return this._requests.get(name);
  }

  async forgetTemplate(name: string): Promise<void> {
    await this._api.forgetTemplate(name);
    await this.refresh();
  }

  private readonly _order = new AnswerOrder();
  private _ready = false;
  private _clusters: readonly ClusterInfo[] = [];
  private _templates: readonly Template[] = [];
  private readonly _requests = new Map<string, ClusterRequest>();
  private readonly _changed = new Signal<this, void>(this);
}
