import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ClusterInfo } from '../api/schema';
import { formatJobs, formatPercent } from '../model/format';
import { ClusterRun, factsOf } from '../model/notebookstatus';
import type { ServerHealth } from '../model/server';
import { fractionDone, isFinal } from '../model/runstate';
import { Bar, StateMark } from './controls';
import { Mark } from './stateicons';
import { stateText } from './localizedtext';

/** Whether the page and the server extension cannot work together until a user intervenes. */
export function needsHelp(health: ServerHealth): boolean {
  return health !== 'ok' && health !== 'connecting' && health !== 'offline';
}

/**
 * A notebook's cluster and its run in one line, each of which can be opened; or a message that the extension does not
 * work.
 */
export function StatusLine(props: {
  health: ServerHealth;
  /** The cluster's name; empty if the notebook has none. */
  name: string;
  /** Undefined if there is no cluster of that name. */
  cluster: ClusterInfo | undefined;
  run: ClusterRun | null;
  trans: TranslationBundle;
  onCluster: () => void;
  onRun: (id: string) => void;
}): React.ReactElement | null {
  const { name, cluster, trans } = props;
  if (needsHelp(props.health)) {
    const title = trans.__('Distributed TensorFlow is not working. Click to see what to do');
    return (
      <button type="button" className="jp-dtf-status-part" title={title} aria-label={title} onClick={props.onCluster}>
        <Mark kind="warning" />
        <span>{trans.__('TensorFlow')}</span>
      </button>
    );
  }
  if (name === '') {
    return null;
  }
  const words = !cluster
    ? trans.__('not running')
    : cluster.state === 'running'
      ? formatJobs(cluster.jobs)
      : stateText(cluster.state, trans);
  const title = trans.__("The notebook's cluster: %1, %2. Show clusters and runs", name, words);
  return (
    <>
      <button type="button" className="jp-dtf-status-part" title={title} aria-label={title} onClick={props.onCluster}>
        {cluster ? <StateMark state={cluster.state} trans={trans} /> : <Mark kind="pending" />}
        <span className="jp-dtf-status-name">{name}</span>
      </button>
      {props.run && <RunPart {...props.run} trans={trans} onRun={props.onRun} />}
    </>
  );
}

function RunPart(props: ClusterRun & { trans: TranslationBundle; onRun: (id: string) => void }): React.ReactElement {
  const { run, others, trans } = props;
  const fraction = isFinal(run.state) ? null : fractionDone(run);
  const facts = factsOf(run);
  const more = others > 0 ? trans._n('and %1 other run', 'and %1 other runs', others) : '';
  const says = [run.name, stateText(run.state, trans), ...facts, more].filter(part => part !== '').join(', ');
  const title = trans.__('Open the dashboard of %1', says);
  return (
    <button
      type="button"
      className="jp-dtf-status-part"
      data-state={run.state}
      title={title}
      aria-label={title}
      onClick={() => props.onRun(run.id)}
    >
      <StateMark state={run.state} trans={trans} />
      <span className="jp-dtf-status-name">{run.name}</span>
      {fraction !== null && <Bar fraction={fraction} label={trans.__('%1 done', formatPercent(fraction))} />}
      <span className="jp-dtf-number jp-dtf-status-facts">{facts.join(' · ')}</span>
      {others > 0 && <span className="jp-dtf-status-facts">+{others}</span>}
    </button>
  );
}
