import type { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, ellipsesIcon, refreshIcon, runIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { ClusterInfo, GpuInfo, Template } from '../api/schema';
import { formatBytesOf, formatJobs, formatPercent } from '../model/format';
import { Bar, IconButton, Section, SmallButton, StateMark } from './basics';
import { stateText } from './words';

/** What can be done to a cluster from its row. */
export interface ClusterActions {
  connect(name: string): void;
  scale(name: string): void;
  stop(name: string): void;
  menu(name: string, at: HTMLElement): void;
  /** The pointer has begun to drag the row. */
  drag(name: string, at: { clientX: number; clientY: number }): void;
}

const DRAG_THRESHOLD_PX = 5;

function useDrag(begin: (at: { clientX: number; clientY: number }) => void): (event: React.PointerEvent) => void {
  return event => {
    if (event.button !== 0 || (event.target as HTMLElement).closest('button')) {
      return;
    }
    const { clientX, clientY } = event;
    const move = (moved: PointerEvent) => {
      if (Math.hypot(moved.clientX - clientX, moved.clientY - clientY) > DRAG_THRESHOLD_PX) {
        end();
        begin(moved);
      }
    };
    const end = () => {
      document.removeEventListener('pointermove', move);
      document.removeEventListener('pointerup', end);
    };
    document.addEventListener('pointermove', move);
    document.addEventListener('pointerup', end);
  };
}

/** Cores, memory and GPUs of a cluster's hosts together. */
export function Load(props: { cluster: ClusterInfo; trans: TranslationBundle }): React.ReactElement | null {
  const { cluster, trans } = props;
  const { hosts } = cluster;
  if (hosts.length === 0) {
    return null;
  }
  const sum = (of: (host: (typeof hosts)[number]) => number) => hosts.reduce((total, host) => total + of(host), 0);
  const threads = sum(host => host.threads);
  const cpu = threads > 0 ? sum(host => host.cpu) / threads : 0;
  const [used, memory] = [sum(host => host.memory_used_bytes), sum(host => host.memory_bytes)];
  return (
    <div className="jp-dtf-load">
      <Bar fraction={cpu} label={trans.__('%1 of %2 cores in use', formatPercent(cpu), threads)} />
      <span className="jp-dtf-number">{trans.__('%1 cpu', formatPercent(cpu))}</span>
      <span className="jp-dtf-number jp-dtf-memory" title={trans.__('memory in use, of the limit')}>
        {formatBytesOf(used, memory)}
      </span>
      {hosts
        .flatMap(host => host.gpus.map(gpu => ({ host: host.name, gpu })))
        .map(({ host, gpu }) => (
          <GpuLoad key={`${host}/${gpu.index}`} gpu={gpu} trans={trans} />
        ))}
    </div>
  );
}

function GpuLoad(props: { gpu: GpuInfo; trans: TranslationBundle }): React.ReactElement {
  const { gpu, trans } = props;
  return (
    <>
      <Bar kind="gpu" fraction={gpu.utilization} label={`GPU ${gpu.index}, ${gpu.name}`} />
      <span className="jp-dtf-number">{trans.__('%1 gpu %2', formatPercent(gpu.utilization), gpu.index)}</span>
      <span className="jp-dtf-number jp-dtf-memory">{formatBytesOf(gpu.memory_used_bytes, gpu.memory_bytes)}</span>
    </>
  );
}

export function ClusterRow(props: {
  cluster: ClusterInfo;
  actions: ClusterActions;
  trans: TranslationBundle;
}): React.ReactElement {
  const { cluster, actions, trans } = props;
  const { name, state } = cluster;
  const drag = useDrag(at => actions.drag(name, at));
  const usable = state === 'running' || state === 'starting';
  const words = state === 'running' ? formatJobs(cluster.jobs) : stateText(state, trans);
  return (
    <li
      className="jp-dtf-row jp-dtf-cluster"
      data-name={name}
      aria-label={trans.__('Cluster %1', name)}
      onPointerDown={usable ? drag : undefined}
      title={usable ? trans.__('Drag into a notebook to connect it') : undefined}
    >
      <div className="jp-dtf-row-head">
        <StateMark state={state} trans={trans} />
        <span className="jp-dtf-name">{name}</span>
        <span className="jp-dtf-faint">
          {cluster.kind} · {words}
        </span>
      </div>
      {state === 'running' && <Load cluster={cluster} trans={trans} />}
      {cluster.message !== '' && (
        <div className={state === 'failed' || state === 'lost' ? 'jp-dtf-problem' : 'jp-dtf-faint'}>
          {cluster.message}
        </div>
      )}
      {cluster.notes.map(note => (
        <div key={note} className="jp-dtf-note">
          {note}
        </div>
      ))}
      <div className="jp-dtf-row-actions">
        <SmallButton
          label={trans.__('Connect the notebook to %1', name)}
          disabled={!usable}
          onClick={() => actions.connect(name)}
        >
          {trans.__('Connect')}
        </SmallButton>
        <SmallButton
          label={trans.__('Scale %1', name)}
          disabled={state !== 'running'}
          onClick={() => actions.scale(name)}
        >
          {trans.__('Scale')}
        </SmallButton>
        <SmallButton
          label={trans.__('Stop %1', name)}
          disabled={state === 'stopping'}
          onClick={() => actions.stop(name)}
        >
          {trans.__('Stop')}
        </SmallButton>
        <IconButton
          icon={ellipsesIcon}
          label={trans.__('More about %1', name)}
          menu
          onClick={event => actions.menu(name, event.currentTarget)}
        />
      </div>
    </li>
  );
}

export function TemplateRow(props: {
  template: Template;
  trans: TranslationBundle;
  onStart: (name: string) => void;
  onMenu: (name: string, at: HTMLElement) => void;
}): React.ReactElement {
  const { template, trans } = props;
  const { name, request } = template;
  return (
    <li className="jp-dtf-row jp-dtf-template" data-name={name} aria-label={trans.__('Template %1', name)}>
      <div className="jp-dtf-row-head">
        <span className="jp-dtf-state" aria-hidden="true">
          ○
        </span>
        <span className="jp-dtf-name">{name}</span>
        <span className="jp-dtf-faint">
          {request.kind} · {trans.__('not running')}
        </span>
        <IconButton icon={runIcon} label={trans.__('Start %1', name)} onClick={() => props.onStart(name)} />
        <IconButton
          icon={ellipsesIcon}
          label={trans.__('More about %1', name)}
          menu
          onClick={event => props.onMenu(name, event.currentTarget)}
        />
      </div>
    </li>
  );
}

/** The panel's part on clusters. */
export function Clusters(props: {
  clusters: readonly ClusterInfo[];
  templates: readonly Template[];
  ready: boolean;
  hasExample: boolean;
  actions: ClusterActions;
  trans: TranslationBundle;
  onNew: () => void;
  onRefresh: () => void;
  onStartTwo: () => void;
  onExample: () => void;
  onStartTemplate: (name: string) => void;
  onTemplateMenu: (name: string, at: HTMLElement) => void;
}): React.ReactElement {
  const { clusters, templates, trans } = props;
  const empty = props.ready && clusters.length === 0 && templates.length === 0;
  return (
    <Section
      title={trans.__('Clusters')}
      tools={
        <>
          <IconButton icon={addIcon} label={trans.__('New cluster…')} onClick={props.onNew} />
          <IconButton icon={refreshIcon} label={trans.__('Refresh')} onClick={props.onRefresh} />
        </>
      }
    >
      {!props.ready && <p className="jp-dtf-faint">{trans.__('Asking the server…')}</p>}
      {empty && (
        <div className="jp-dtf-empty">
          <p>{trans.__('A cluster is a set of TensorFlow processes that train one model together.')}</p>
          <SmallButton accent onClick={props.onStartTwo}>
            {trans.__('Start two local workers')}
          </SmallButton>
          {props.hasExample && (
            <button type="button" className="jp-dtf-link" onClick={props.onExample}>
              {trans.__('Open the example')}
            </button>
          )}
        </div>
      )}
      <ul className="jp-dtf-list">
        {clusters.map(cluster => (
          <ClusterRow key={cluster.name} cluster={cluster} actions={props.actions} trans={trans} />
        ))}
        {templates.map(template => (
          <TemplateRow
            key={`template:${template.name}`}
            template={template}
            trans={trans}
            onStart={props.onStartTemplate}
            onMenu={props.onTemplateMenu}
          />
        ))}
      </ul>
    </Section>
  );
}
