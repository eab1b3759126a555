import type { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, ellipsesIcon, refreshIcon, runIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { ClusterInfo, Template } from '../api/schema';
import { formatDuration, formatJobs } from '../model/format';
import { IconButton, Section, SmallButton, StateMark, WithCode } from './controls';
import { Load } from './clusterload';
import { Mark } from './stateicons';
import { stateText } from './localizedtext';
import { followPointer } from './pointerdrag';

/** The actions on a cluster in its row. */
export interface ClusterActions {
  connect(name: string): void;
  disconnect(): void;
  scale(name: string): void;
  stop(name: string): void;
  menu(name: string, at: HTMLElement): void;
  /** Called when the user begins to drag the row. */
  drag(name: string, at: { clientX: number; clientY: number }): void;
}

const DRAG_THRESHOLD_PX = 5;
// Longer lists are summarized.
const MOST_COMING = 16;
const MOST_REMARKS = 8;

/** Call `begin` once the pointer has moved a few pixels after a press on a row, unless a button was pressed. */
function dragRow(event: React.PointerEvent, begin: (at: { clientX: number; clientY: number }) => void): void {
  if (event.button !== 0 || (event.target as HTMLElement).closest('button')) {
    return;
  }
  const { clientX, clientY } = event;
  const stop = followPointer(event.pointerId, document, {
    move: moved => {
      if (Math.hypot(moved.clientX - clientX, moved.clientY - clientY) > DRAG_THRESHOLD_PX) {
        stop();
        begin(moved);
      }
    }
  });
}

/** Remarks about a cluster for the user: that it does not respond, problems that can be fixed, other notes. */
export function Remarks(props: { cluster: ClusterInfo; trans: TranslationBundle }): React.ReactElement {
  const { cluster, trans } = props;
  const { name, state, silent_s: silent } = cluster;
  return (
    <>
      {silent > 0 && (
        <div className="jp-dtf-problem">
          {trans.__('%1 has not responded for %2. It is busy or frozen; Stop ends it.', name, formatDuration(silent))}
        </div>
      )}
      {cluster.incompatible && (
        <div className="jp-dtf-note">
          <WithCode text={cluster.incompatible} />
        </div>
      )}
      {cluster.message !== '' && (
        <div className={state === 'failed' || state === 'lost' ? 'jp-dtf-problem' : 'jp-dtf-note'}>
          {cluster.message}
        </div>
      )}
      {cluster.warnings.slice(0, MOST_REMARKS).map(warning => (
        <div key={warning} className="jp-dtf-problem">
          {warning}
        </div>
      ))}
      {cluster.warnings.length > MOST_REMARKS && (
        <div className="jp-dtf-problem" title={cluster.warnings.slice(MOST_REMARKS).join('\n')}>
          {trans.__('and %1 more', cluster.warnings.length - MOST_REMARKS)}
        </div>
      )}
    </>
  );
}

/** The hosts of a cluster with their current states, while some of them are still starting. */
export function Coming(props: { cluster: ClusterInfo; trans: TranslationBundle }): React.ReactElement | null {
  const { cluster, trans } = props;
  const coming = cluster.coming.filter(host => host.problem === '');
  if (coming.length === 0) {
    return null;
  }
  const there = cluster.hosts.map(host => ({
    name: host.name,
    step: host.warm ? trans.__('ready') : trans.__('importing TensorFlow')
  }));
  const steps: Record<string, string> = {
    connecting: trans.__('connecting'),
    'starting Python': trans.__('starting Python'),
    'starting Dask': trans.__('starting Dask'),
    waiting: trans.__('waiting')
  };
  const all = [...coming, ...there].sort((one, other) => one.name.localeCompare(other.name));
  const lines =
    all.length > MOST_COMING
      ? countsOf(all.map(({ step }) => steps[step] ?? step)).map(([step, count]) => `${count} ${step}`)
      : all.map(({ name, step }) => `${name}: ${steps[step] ?? step}`);
  return (
    <ul className="jp-dtf-coming" aria-label={trans.__('Hosts starting')}>
      {lines.map(line => (
        <li key={line} className="jp-dtf-faint">
          {line}
        </li>
      ))}
    </ul>
  );
}

/** The number of occurrences of each text, in order of first occurrence. */
function countsOf(texts: readonly string[]): [string, number][] {
  const counts = new Map<string, number>();
  texts.forEach(text => counts.set(text, (counts.get(text) ?? 0) + 1));
  return [...counts];
}

/** The button that stops a cluster, or dismisses one that is lost or has failed. */
export function StopButton(props: {
  cluster: ClusterInfo;
  trans: TranslationBundle;
  onStop: () => void;
}): React.ReactElement {
  const { trans } = props;
  const { name, state, silent_s: silent } = props.cluster;
  const dead = state === 'lost' || state === 'failed';
  return (
    <SmallButton
      label={dead ? trans.__('Dismiss %1', name) : trans.__('Stop %1', name)}
      disabled={state === 'stopping' && silent === 0}
      onClick={props.onStop}
    >
      {dead ? trans.__('Dismiss') : trans.__('Stop')}
    </SmallButton>
  );
}

export function ClusterRow(props: {
  cluster: ClusterInfo;
  /** Whether it is the cluster of the current notebook. */
  connected: boolean;
  actions: ClusterActions;
  trans: TranslationBundle;
}): React.ReactElement {
  const { cluster, connected, actions, trans } = props;
  const { name, state } = cluster;
  const usable = (state === 'running' || state === 'starting') && !cluster.incompatible;
  const jobs = cluster.incompatible ? trans.__('another version') : formatJobs(cluster.jobs);
  const words = state === 'running' ? jobs : stateText(state, trans);
  return (
    <li
      className="jp-dtf-row jp-dtf-cluster"
      data-name={name}
      aria-label={trans.__('Cluster %1', name)}
      onPointerDown={usable ? event => dragRow(event, at => actions.drag(name, at)) : undefined}
      title={usable ? trans.__('Drag into a notebook to connect it') : undefined}
      onContextMenu={event => {
        event.preventDefault();
        event.stopPropagation();
        actions.menu(name, event.currentTarget);
      }}
    >
      <div className="jp-dtf-row-head">
        <StateMark state={state} trans={trans} />
        <span className="jp-dtf-name">{name}</span>
        <span className="jp-dtf-faint">
          {cluster.kind} · {words}
        </span>
      </div>
      {state === 'running' && <Load cluster={cluster} trans={trans} />}
      <Coming cluster={cluster} trans={trans} />
      <Remarks cluster={cluster} trans={trans} />
      {cluster.notes.slice(0, MOST_REMARKS).map(note => (
        <div key={note} className="jp-dtf-note">
          {note}
        </div>
      ))}
      {cluster.notes.length > MOST_REMARKS && (
        <div className="jp-dtf-note" title={cluster.notes.slice(MOST_REMARKS).join('\n')}>
          {trans.__('and %1 more', cluster.notes.length - MOST_REMARKS)}
        </div>
      )}
      <div className="jp-dtf-row-actions">
        {connected ? (
          <SmallButton
            label={trans.__('Disconnect the notebook from %1', name)}
            hint={trans.__("This notebook's cluster. It keeps running after you disconnect")}
            onClick={() => actions.disconnect()}
          >
            {trans.__('Disconnect')}
          </SmallButton>
        ) : cluster.incompatible ? null : (
          <SmallButton
            label={trans.__('Connect the notebook to %1', name)}
            hint={trans.__('Use this cluster for the notebook; if no notebook is open, a new one is created')}
            disabled={!usable}
            onClick={() => actions.connect(name)}
          >
            {trans.__('Connect')}
          </SmallButton>
        )}
        {!cluster.incompatible && (
          <SmallButton
            label={trans.__('Scale %1', name)}
            disabled={state !== 'running'}
            onClick={() => actions.scale(name)}
          >
            {trans.__('Scale')}
          </SmallButton>
        )}
        <StopButton cluster={cluster} trans={trans} onStop={() => actions.stop(name)} />
        <IconButton
          icon={ellipsesIcon}
          label={trans.__('Actions for %1', name)}
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
    <li
      className="jp-dtf-row jp-dtf-template"
      data-name={name}
      aria-label={trans.__('Template %1', name)}
      onContextMenu={event => {
        event.preventDefault();
        event.stopPropagation();
        props.onMenu(name, event.currentTarget);
      }}
    >
      <div className="jp-dtf-row-head">
        <Mark kind="pending" />
        <span className="jp-dtf-name">{name}</span>
        <span className="jp-dtf-faint">
          {request.kind} · {trans.__('not running')}
        </span>
        <IconButton icon={runIcon} label={trans.__('Start %1', name)} onClick={() => props.onStart(name)} />
        <IconButton
          icon={ellipsesIcon}
          label={trans.__('Actions for %1', name)}
          menu
          onClick={event => props.onMenu(name, event.currentTarget)}
        />
      </div>
    </li>
  );
}

/** The clusters section of the panel. */
export function Clusters(props: {
  clusters: readonly ClusterInfo[];
  templates: readonly Template[];
  ready: boolean;
  /** The name of the current notebook's cluster; empty if it has none. */
  connected: string;
  actions: ClusterActions;
  trans: TranslationBundle;
  onNew: () => void;
  onRefresh: () => void;
  onMore: (at: HTMLElement) => void;
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
          <IconButton
            icon={ellipsesIcon}
            label={trans.__('More actions')}
            menu
            onClick={event => props.onMore(event.currentTarget)}
          />
        </>
      }
    >
      {!props.ready && <p className="jp-dtf-faint">{trans.__('Waiting for the server…')}</p>}
      {empty && (
        <div className="jp-dtf-empty">
          <p>{trans.__('A cluster is a set of TensorFlow processes that train one model together.')}</p>
          <SmallButton accent onClick={props.onStartTwo}>
            {trans.__('Start two local workers')}
          </SmallButton>
          <button type="button" className="jp-dtf-link" onClick={props.onExample}>
            {trans.__('Open the example')}
          </button>
        </div>
      )}
      <ul className="jp-dtf-list">
        {clusters.map(cluster => (
          <ClusterRow
            key={cluster.name}
            cluster={cluster}
            connected={cluster.name === props.connected}
            actions={props.actions}
            trans={trans}
          />
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
