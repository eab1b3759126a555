import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ClusterDesign, ClusterInfo, ClusterRequest, KindInfo, RunInfo } from '../api/schema';
import { hostsFrom } from '../model/clusterdesign';
import type { DiskWatch } from '../model/diskwatch';
import { isFinal } from '../model/runstate';
import type { IDtf } from '../tokens';
import { SmallButton } from '../views/controls';
import { BrokenDesign } from '../views/designer/brokendesign';
import { ClusterView } from '../views/designer/cluster/clusterview';
import type { HostSource } from '../views/designer/cluster/clusterhosts';
import { useSignals } from '../views/hooks';
import { Tabs } from '../views/tabs';
import type { DesignerOptions, OpenDesign } from './designeroptions';
import { DesignScale } from './designerscale';

/** Loaded when first shown: the graph editor is large. */
const PlacementView = React.lazy(() =>
  import('../views/designer/placement/placementview').then(module => ({ default: module.PlacementView }))
);

interface Parts {
  document: OpenDesign;
  options: DesignerOptions;
}

/** All views of a design, or an explanation of why its text cannot be drawn. */
export function Designer(props: Parts & { watch: DiskWatch }): React.ReactElement {
  const { document, options, watch } = props;
  const { trans } = options;
  const { design: model, context } = document;
  const [tab, setTab] = React.useState('cluster');
  const services = React.useMemo(() => options.placement(document), [options, document]);
  useSignals(model.changed, model.reportChanged, watch.changed);
  if (!context.isReady) {
    return <></>; // until the document is loaded, the model has an empty design
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
          <span>{trans.__('The file has changed on disk, and there are unsaved changes here.')}</span>
          <SmallButton onClick={() => void context.revert().then(() => watch.look())}>
            {trans.__('Load the version on disk')}
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
          },
          {
            id: 'scale',
            title: trans.__('Scale'),
            content: <DesignScale document={document} options={options} />
          }
        ]}
      />
    </>
  );
}

/** The cluster half with the state of the running cluster, and the hosts that could be drawn. */
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
      clusters
        .kinds()
        .then(setKinds, (reason: unknown) => console.warn('jupyter_dtf: could not fetch the kinds:', reason));
    }
  }, [clusters, health]);
  return kinds;
}

/** Hosts that can be drawn: those of the design's kind, of templates, and of running clusters. */
function hostSources(
  cluster: Readonly<ClusterDesign>,
  dtf: IDtf,
  kinds: readonly KindInfo[],
  trans: TranslationBundle
): HostSource[] {
  const { kind, options } = cluster;
  const expectedHosts = (request: ClusterRequest) => async () => (await dtf.clusters.preview(request)).hosts;
  const title = kinds.find(other => other.kind === kind)?.title ?? kind;
  return [
    { label: trans.__('the kind “%1”', title), hosts: expectedHosts({ kind, options }) },
    ...dtf.clusters.templates.map(({ name, request }) => ({
      label: trans.__('the template %1', name),
      hosts: expectedHosts({ ...request, name: '' })
    })),
    ...dtf.clusters.clusters
      .filter(({ hosts }) => hosts.length > 0)
      .map(({ name, hosts }) => ({
        label: trans.__('the cluster %1', name),
        hosts: () => Promise.resolve(hostsFrom(hosts))
      }))
  ];
}
