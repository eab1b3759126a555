import { ReactWidget } from '@jupyterlab/apputils';
import { ABCWidgetFactory, DocumentRegistry, DocumentWidget } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import React from 'react';

import type { ClusterDesign, ClusterInfo, ClusterRequest, KindInfo, RunInfo } from '../api/schema';
import { clusterName, hostsFrom } from '../model/clusterdesign';
import { DesignModel } from '../model/design';
import { DiskWatch } from '../model/diskwatch';
import { isFinal } from '../model/state';
import type { IDtf } from '../tokens';
import { SmallButton } from '../views/basics';
import { BrokenDesign } from '../views/designer/broken';
import { ClusterView } from '../views/designer/cluster';
import type { HostSource } from '../views/designer/clusterhosts';
import type { PlacementServices } from '../views/designer/placementservices';
import { useSignals } from '../views/hooks';
import { Tabs } from '../views/tabs';
import { addTools } from './designertools';

const LOOK_EVERY_MS = 5000;

/** Loaded when it is first looked at: the graph editor is large. */
const PlacementView = React.lazy(() =>
  import('../views/designer/placement').then(module => ({ default: module.PlacementView }))
);

/** What a designer needs of the application; the plugin says how. */
export interface DesignerOptions {
  dtf: IDtf;
  contents: Contents.IManager;
  placement: (document: DesignerDocument) => PlacementServices;
  start(document: DesignerDocument): Promise<void>;
  stop(cluster: string): void;
  openText(path: string, line: number, column: number): void;
  exportScript(document: DesignerDocument): Promise<void>;
  copy(text: string): void;
  trans: TranslationBundle;
}

/** A `.dtf` document: the cluster and the placement drawn in it. */
export class DesignerDocument extends DocumentWidget<DesignerContent, DocumentRegistry.ICodeModel> {
  constructor(options: DocumentWidget.IOptions<DesignerContent, DocumentRegistry.ICodeModel>) {
    super(options);
    this.addClass('jp-dtf-designer-document');
  }

  get design(): DesignModel {
    return this.content.model;
  }

  /** The name of the cluster that is started from here. */
  get clusterName(): string {
    return this.design.design.cluster.name || clusterName(this.context.path);
  }
}

/** Makes designers. Views of one document share its model. */
export class DesignerFactory extends ABCWidgetFactory<DesignerDocument, DocumentRegistry.ICodeModel> {
  constructor(
    factory: DocumentRegistry.IWidgetFactoryOptions<DesignerDocument>,
    private readonly _options: DesignerOptions
  ) {
    super(factory);
  }

  protected override createNewWidget(
    context: DocumentRegistry.IContext<DocumentRegistry.ICodeModel>
  ): DesignerDocument {
    const content = new DesignerContent(context, this._modelOf(context), this._options);
    const document = new DesignerDocument({ content, context, translator: this.translator });
    content.document = document;
    addTools(document, this._options);
    return document;
  }

  private _modelOf(context: DocumentRegistry.IContext<DocumentRegistry.ICodeModel>): DesignModel {
    const known = this._models.get(context);
    if (known) {
      return known;
    }
    const model = new DesignModel(
      context.model,
      this._options.dtf.api,
      () => context.contentsModel?.writable === false
    );
    this._models.set(context, model);
    context.disposed.connect(() => model.dispose());
    return model;
  }

  private readonly _models = new WeakMap<object, DesignModel>();
}

/** What is drawn of a design. */
export class DesignerContent extends ReactWidget {
  constructor(
    readonly context: DocumentRegistry.IContext<DocumentRegistry.ICodeModel>,
    readonly model: DesignModel,
    private readonly _options: DesignerOptions
  ) {
    super();
    this.addClass('jp-dtf-designer');
    this.node.tabIndex = -1;
    this.node.dataset['jpUndoer'] = 'true'; // JupyterLab's own keys for undo and redo
    this.watch = new DiskWatch(context, _options.contents);
    void context.ready.then(() => this.update());
  }

  readonly watch: DiskWatch;
  /** Set right after construction: a document is made around its content. */
  document!: DesignerDocument;

  override dispose(): void {
    if (!this.isDisposed) {
      this._rest();
      this.watch.dispose();
      super.dispose();
    }
  }

  handleEvent(event: Event): void {
    if (event.type === 'focus') {
      void this.watch.look(); // somebody comes back to the window, perhaps from changing the file
      return;
    }
    // While something is typed, undo is the field's own.
    const isTyping = event.type === 'focusin' && (event.target as HTMLElement).matches('input, textarea');
    if (isTyping) {
      delete this.node.dataset['jpUndoer'];
    } else {
      this.node.dataset['jpUndoer'] = 'true';
    }
  }

  protected override render(): React.ReactElement {
    return <Designer document={this.document} options={this._options} watch={this.watch} />;
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.node.addEventListener('focusin', this);
    this.node.addEventListener('focusout', this);
  }

  protected override onBeforeDetach(message: Message): void {
    this.node.removeEventListener('focusin', this);
    this.node.removeEventListener('focusout', this);
    super.onBeforeDetach(message);
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    void this.watch.look();
    this._rest();
    window.addEventListener('focus', this);
    this._timer = setInterval(() => {
      if (!document.hidden) {
        void this.watch.look();
      }
    }, LOOK_EVERY_MS);
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._rest();
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    if (!this.node.contains(document.activeElement)) {
      this.node.focus({ preventScroll: true });
    }
  }

  /** Nobody looks: the file is not looked at either. */
  private _rest(): void {
    window.removeEventListener('focus', this);
    clearInterval(this._timer);
  }

  private _timer: ReturnType<typeof setInterval> | undefined;
}

interface Parts {
  document: DesignerDocument;
  options: DesignerOptions;
}

function Designer(props: Parts & { watch: DiskWatch }): React.ReactElement {
  const { document, options, watch } = props;
  const { trans } = options;
  const { design: model, context } = document;
  const [tab, setTab] = React.useState('cluster');
  const services = React.useMemo(() => options.placement(document), [options, document]);
  useSignals(model.changed, model.reportChanged, watch.changed);
  if (!context.isReady) {
    return <></>; // until then it is an empty design, and not the document's
  }
  if (model.error) {
    return (
      <BrokenDesign
        error={model.error}
        failure={model.checkFailure}
        canUndo={model.canUndo}
        onOpenText={(line, column) => options.openText(context.path, line, column)}
        onUndo={() => model.undo()}
        trans={trans}
      />
    );
  }
  return (
    <>
      {watch.hasChanged && (
        <div className="jp-dtf-changed" role="alert">
          <span>{trans.__('The file has changed on disk, and so has what is shown here.')}</span>
          <SmallButton onClick={() => void context.revert().then(() => watch.look())}>
            {trans.__('Show what is on disk')}
          </SmallButton>
        </div>
      )}
      <Tabs
        label={trans.__('Parts of %1', context.localPath)}
        active={tab}
        onActive={setTab}
        tabs={[
          {
            id: 'cluster',
            title: trans.__('Cluster'),
            content: <LiveCluster document={document} options={options} />
          },
          {
            id: 'placement',
            title: trans.__('Placement'),
            content: (
              <React.Suspense fallback={<p className="jp-dtf-none jp-dtf-faint">{trans.__('Loading…')}</p>}>
                <PlacementView model={model} services={services} trans={trans} />
              </React.Suspense>
            )
          }
        ]}
      />
    </>
  );
}

/** The cluster half with what is known of the cluster that runs, and of the hosts that could be drawn. */
function LiveCluster(props: Parts): React.ReactElement {
  const { document, options } = props;
  const { dtf, trans } = options;
  const { design: model } = document;
  useSignals(model.changed, model.reportChanged, dtf.clusters.changed, dtf.runs.changed, document.context.pathChanged);
  const live = dtf.clusters.get(document.clusterName);
  const kinds = useKinds(dtf);
  return (
    <ClusterView
      design={model.design}
      report={model.report}
      failure={model.checkFailure}
      readOnly={!model.canEdit}
      kinds={kinds}
      sources={hostSources(model.design.cluster, dtf, kinds, trans)}
      live={live}
      run={runOn(live, dtf.runs.runs)}
      edit={(label, recipe) => model.edit(label, recipe)}
      copy={text => options.copy(text)}
      trans={trans}
    />
  );
}

/** The newest run of a cluster that has not ended. */
function runOn(live: ClusterInfo | undefined, runs: readonly RunInfo[]): RunInfo | undefined {
  return live && runs.find(run => run.cluster === live.name && !isFinal(run.state));
}

function useKinds(dtf: IDtf): readonly KindInfo[] {
  const [kinds, setKinds] = React.useState<readonly KindInfo[]>([]);
  const { server, clusters } = dtf;
  useSignals(server.changed);
  const { health } = server;
  React.useEffect(() => {
    if (health === 'ok') {
      clusters.kinds().then(setKinds, (reason: unknown) => console.warn('jupyter_dtf: no kinds:', reason));
    }
  }, [clusters, health]);
  return kinds;
}

/** Hosts that can be drawn: those that the design's kind and the templates promise, those of clusters that run. */
function hostSources(
  cluster: Readonly<ClusterDesign>,
  dtf: IDtf,
  kinds: readonly KindInfo[],
  trans: TranslationBundle
): HostSource[] {
  const { kind, options } = cluster;
  const promised = (request: ClusterRequest) => async () => (await dtf.clusters.preview(request)).hosts;
  const title = kinds.find(other => other.kind === kind)?.title ?? kind;
  return [
    { label: trans.__('the kind “%1”', title), hosts: promised({ kind, options }) },
    ...dtf.clusters.templates.map(({ name, request }) => ({
      label: trans.__('the template %1', name),
      hosts: promised({ ...request, name: '' })
    })),
    ...dtf.clusters.clusters
      .filter(({ hosts }) => hosts.length > 0)
      .map(({ name, hosts }) => ({
        label: trans.__('the cluster %1', name),
        hosts: () => Promise.resolve(hostsFrom(hosts))
      }))
  ];
}
