import type { TranslationBundle } from '@jupyterlab/translation';
import { ellipsesIcon, runIcon, stopIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { RunInfo } from '../api/schema';
import { formatBytes, formatDuration, formatJobs, formatPercent } from '../model/format';
import {
  canPause,
  canResume,
  canStop,
  fractionDone,
  isFinal,
  reason,
  secondsLeft,
  secondsTaken,
  warningsOf
} from '../model/runstate';
import { Bar, IconButton, SmallButton, StateMark } from './controls';
import { Failure } from './runfailure';
import { useNow } from './hooks';
import { momentText, stateText, whenText } from './localizedtext';

/** A run's name, state and progress: the first line of its dashboard. */
export function Header(props: {
  run: RunInfo;
  trans: TranslationBundle;
  onStop: () => void;
  onPause: () => void;
  onContinue: () => void;
  /** Ask the user on which cluster to resume the run. */
  onResume: (at: HTMLElement) => void;
  /** The run that this one was resumed from, if known: its name, and an action that opens it. */
  source?: { name: string; open: () => void };
  onMenu: (at: HTMLElement) => void;
}): React.ReactElement {
  const { run, trans } = props;
  const now = useNow(!isFinal(run.state));
  const fraction = run.state === 'succeeded' ? null : fractionDone(run); // a finished run has no progress to show
  const left = secondsLeft(run, now);
  const { epoch, epochs, done, total, unit } = run.progress;
  const state = stateText(run.state, trans);
  const why = reason(run);
  const parameters = Object.entries(run.parameters).map(([name, value]) => `${name} ${show(value)}`);
  const facts = [run.cluster, formatJobs(run.jobs), run.strategy, ...parameters]
    .filter(part => part !== '')
    .join(' · ');
  return (
    <header className="jp-dtf-header">
      <div className="jp-dtf-header-line">
        <div className="jp-dtf-header-facts">
          <h2 className="jp-dtf-title" title={run.name}>
            {run.name}
          </h2>
          <span className="jp-dtf-header-state" role="status">
            <StateMark state={run.state} trans={trans} />
            <span aria-hidden="true">{state}</span>
          </span>
          <span className="jp-dtf-number jp-dtf-epoch">
            {epochs > 0
              ? trans.__('epoch %1/%2', epoch, epochs)
              : total > 0 && unit !== 'byte' // bytes are sent before the run starts, and its message covers them
                ? `${unit} ${done}/${total}`
                : ''}
          </span>
          {!(fraction === null && isFinal(run.state)) && (
            <Bar
              fraction={fraction}
              label={fraction === null ? trans.__('Progress not known') : trans.__('%1 done', formatPercent(fraction))}
            />
          )}
          <span className="jp-dtf-number jp-dtf-percent">{fraction === null ? '' : formatPercent(fraction)}</span>
          <span className="jp-dtf-number jp-dtf-left">
            {left !== null
              ? trans.__('%1 left', formatDuration(left))
              : isFinal(run.state)
                ? trans.__('took %1', formatDuration(secondsTaken(run, now)))
                : formatDuration(secondsTaken(run, now))}
          </span>
        </div>
        <div className="jp-dtf-header-actions">
          {canPause(run) && (
            <SmallButton
              label={trans.__('Pause %1', run.name)}
              hint={trans.__('Save a checkpoint and end its tasks until the run is continued')}
              onClick={props.onPause}
            >
              {trans.__('Pause')}
            </SmallButton>
          )}
          {run.state === 'paused' && (
            <SmallButton label={trans.__('Continue %1', run.name)} onClick={props.onContinue}>
              <runIcon.react tag="span" className="jp-dtf-icon" />
              {trans.__('Continue')}
            </SmallButton>
          )}
          {!isFinal(run.state) && (
            <SmallButton label={trans.__('Stop %1', run.name)} disabled={!canStop(run.state)} onClick={props.onStop}>
              <stopIcon.react tag="span" className="jp-dtf-icon" />
              {trans.__('Stop')}
            </SmallButton>
          )}
          {canResume(run) && (
            <SmallButton
              label={trans.__('Resume %1 on…', run.name)}
              hint={trans.__('Continue from the checkpoint of step %1', run.checkpoint?.step ?? 0)}
              menu
              onClick={event => props.onResume(event.currentTarget)}
            >
              <runIcon.react tag="span" className="jp-dtf-icon" />
              {trans.__('Resume on…')}
            </SmallButton>
          )}
          <IconButton
            icon={ellipsesIcon}
            label={trans.__('Actions for %1', run.name)}
            menu
            onClick={event => props.onMenu(event.currentTarget)}
          />
        </div>
      </div>
      <div className="jp-dtf-header-detail">
        <time
          className="jp-dtf-faint"
          dateTime={new Date(1000 * run.created).toISOString()}
          title={momentText(run.created)}
        >
          {whenText(run.created, now, trans)}
        </time>
        <LastCheckpoint run={run} now={now} trans={trans} />
        {run.resumed_from !== '' && <Source run={run} source={props.source} trans={trans} />}
        <span className="jp-dtf-faint" title={facts}>
          {facts}
        </span>
      </div>
      {run.state === 'failed' || run.state === 'lost' ? (
        <Failure run={run} trans={trans} />
      ) : (
        why !== '' && <div className="jp-dtf-note">{why}</div>
      )}
      {warningsOf(run).map(warning => (
        <div key={warning} className="jp-dtf-note" role="status">
          {warning}
        </div>
      ))}
    </header>
  );
}

/** The run that this one was resumed from. */
function Source(props: {
  run: RunInfo;
  source: { name: string; open: () => void } | undefined;
  trans: TranslationBundle;
}): React.ReactElement {
  const { run, source, trans } = props;
  return (
    <span className="jp-dtf-faint jp-dtf-source">
      {trans.__('resumed from')}{' '}
      {source ? (
        <button type="button" className="jp-dtf-link" title={run.resumed_from} onClick={source.open}>
          {source.name}
        </button>
      ) : (
        run.resumed_from
      )}
    </span>
  );
}

/** The checkpoint that a run would resume from: `last checkpoint: step 1200, 14 s ago`. */
function LastCheckpoint(props: { run: RunInfo; now: number; trans: TranslationBundle }): React.ReactElement | null {
  const { run, now, trans } = props;
  if (!run.checkpoint) {
    return null;
  }
  const { step, time, bytes, path } = run.checkpoint;
  return (
    <span className="jp-dtf-faint jp-dtf-number jp-dtf-checkpoint" title={[formatBytes(bytes), path].join('\n')}>
      {isFinal(run.state)
        ? trans.__('last checkpoint: step %1', step)
        : trans.__('last checkpoint: step %1, %2 ago', step, formatDuration(Math.max(0, now - time)))}
    </span>
  );
}

function show(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
