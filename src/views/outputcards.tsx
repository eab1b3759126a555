import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ClusterInfo, RunInfo } from '../api/schema';
import { formatDuration, formatJobs, formatPercent } from '../model/format';
import { canStop, fractionDone, isFinal, objectiveText, reason, secondsTaken, warningsOf } from '../model/runstate';
import { SmallButton, StateMark } from './controls';
import { Remarks, StopButton } from './clusterlist';
import { Load } from './clusterload';
import { Failure } from './runfailure';
import { useNow } from './hooks';
import { Sparkline } from './sparkline';
import { stateText } from './localizedtext';

/** A cluster as the last expression of a cell. */
export function ClusterCard(props: {
  cluster: ClusterInfo;
  trans: TranslationBundle;
  onScale: () => void;
  onStop: () => void;
}): React.ReactElement {
  const { cluster, trans } = props;
  return (
    <div className="jp-dtf-card" role="group" aria-label={trans.__('Cluster %1', cluster.name)}>
      <div className="jp-dtf-row-head">
        <StateMark state={cluster.state} trans={trans} />
        <strong className="jp-dtf-name">{cluster.name}</strong>
        <span className="jp-dtf-faint">
          {[cluster.kind, stateText(cluster.state, trans), formatJobs(cluster.jobs)].join(' · ')}
        </span>
      </div>
      <Load cluster={cluster} trans={trans} />
      <Remarks cluster={cluster} trans={trans} />
      <div className="jp-dtf-card-actions">
        <SmallButton
          label={trans.__('Scale %1', cluster.name)}
          disabled={cluster.state !== 'running' || !!cluster.incompatible}
          onClick={props.onScale}
        >
          {trans.__('Scale')}
        </SmallButton>
        <StopButton cluster={cluster} trans={trans} onStop={props.onStop} />
      </div>
    </div>
  );
}

/** A run as the last expression of a cell. */
export function RunCard(props: {
  run: RunInfo;
  trans: TranslationBundle;
  onOpen: () => void;
  onStop: () => void;
}): React.ReactElement {
  const { run, trans } = props;
  const now = useNow(!isFinal(run.state));
  const value = objectiveText(run);
  const fraction = fractionDone(run);
  const why = reason(run);
  return (
    <div className="jp-dtf-card" role="group" aria-label={trans.__('Run %1', run.name)}>
      <div className="jp-dtf-row-head">
        <StateMark state={run.state} trans={trans} />
        <strong className="jp-dtf-name">{run.name}</strong>
        <Sparkline values={run.sparkline} label={trans.__('Trend of the loss')} />
        <span className="jp-dtf-number">
          {fraction === null || run.state === 'succeeded' ? '' : formatPercent(fraction)}
        </span>
        <span className="jp-dtf-number">{value?.join(' ')}</span>
      </div>
      <div className="jp-dtf-faint">
        {[stateText(run.state, trans), run.cluster, formatJobs(run.jobs), formatDuration(secondsTaken(run, now))].join(
          ' · '
        )}
      </div>
      {run.state === 'failed' || run.state === 'lost' ? (
        <Failure run={run} trans={trans} />
      ) : (
        why !== '' && <div className="jp-dtf-note">{why}</div>
      )}
      {warningsOf(run).map(warning => (
        <div key={warning} className="jp-dtf-note">
          {warning}
        </div>
      ))}
      <div className="jp-dtf-card-actions">
        <SmallButton label={trans.__('Open the dashboard of %1', run.name)} onClick={props.onOpen}>
          {trans.__('Dashboard')}
        </SmallButton>
        {canStop(run.state) && (
          <SmallButton label={trans.__('Stop %1', run.name)} onClick={props.onStop}>
            {trans.__('Stop')}
          </SmallButton>
        )}
      </div>
    </div>
  );
}
