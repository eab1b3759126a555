import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { PROFILE_STEPS, RunProfile, TraceData, Transfer } from '../api/schema';
import { formatBytes, formatValue } from '../model/format';
import { extentOf, ofStep, rowsOf, stepsOf, taskOf, totalsOf } from '../model/trace';
import { taskColours } from '../plots/palette';
import { SmallButton } from './controls';
import { TimelineChart } from './tracechart';

const MOST_ROWS = 12;

/** A run's trace: `undefined` while loading, null if there is none. */
export type KnownTrace = TraceData | null | undefined;

/** Profiling on request: the latest profile, a function that requests one, and why the last request was refused. */
export interface Profiling {
  /** The latest profile that was requested; null if there is none. */
  profile: RunProfile | null;
  /** Request one; null if the run is not running. */
  onProfile: (() => void) | null;
  /** Why the last request was refused; '' if it was not. */
  refused: string;
}

/** The operations in the traced steps of a run: a chart, and the same data as tables. */
export function Timeline(props: {
  trace: KnownTrace;
  problem: string;
  tasks: readonly string[];
  downloadUrl: string;
  /** Check for new traces; null if there cannot be any. */
  onReload: (() => void) | null;
  profiling: Profiling;
  trans: TranslationBundle;
}): React.ReactElement {
  const { trace, problem, tasks, downloadUrl, onReload, profiling, trans } = props;
  const [step, setStep] = React.useState<number | null>(null);
  const shown = React.useMemo(() => (trace ? ofStep(trace, step) : null), [trace, step]);
  const colours = React.useMemo(() => {
    const others = trace?.ops.map(op => taskOf(op.device)).filter(task => !tasks.includes(task)) ?? [];
    return taskColours([...tasks, ...new Set(others)]);
  }, [trace, tasks]);
  const chart = React.useMemo(() => shown && { rows: rowsOf(shown), whole: extentOf(shown) }, [shown]);
  if (problem !== '') {
    return <p className="jp-dtf-problem jp-dtf-none">{trans.__('The trace could not be read: %1', problem)}</p>;
  }
  if (trace === undefined) {
    return (
      <p className="jp-dtf-faint jp-dtf-none" role="status">
        {trans.__('Looking for a trace…')}
      </p>
    );
  }
  if (trace === null || !shown || !chart) {
    return <NoTrace onReload={onReload} profiling={profiling} trans={trans} />;
  }
  const steps = stepsOf(trace);
  return (
    <div className="jp-dtf-timeline">
      <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Timeline')}>
        <label>
          {trans.__('step')}
          <select
            value={step ?? ''}
            onChange={event => setStep(event.target.value === '' ? null : Number(event.target.value))}
          >
            <option value="">{trans.__('all %1', steps.length)}</option>
            {steps.map(each => (
              <option key={each} value={each}>
                {each}
              </option>
            ))}
          </select>
        </label>
        <span className="jp-dtf-spacer" />
        <ProfileButton {...profiling} trans={trans} />
        {onReload && <SmallButton onClick={onReload}>{trans.__('Check again')}</SmallButton>}
        <a href={downloadUrl} download title={trans.__('In Chrome’s trace format, for ui.perfetto.dev')}>
          {trans.__('Save the trace')}
        </a>
      </div>
      <ProfileWord {...profiling} trans={trans} />
      <Warnings warnings={trace.warnings} trans={trans} />
      <TimelineChart
        key={step ?? 'all'}
        rows={chart.rows}
        transfers={shown.transfers}
        whole={chart.whole}
        colours={colours}
        trans={trans}
      />
      {trace.left_out > 0 && (
        <p className="jp-dtf-faint jp-dtf-none">
          {trans.__('The %1 shortest operations are not shown. The saved trace has them.', trace.left_out)}
        </p>
      )}
      <Totals trace={shown} colours={colours} trans={trans} />
      <Transfers transfers={shown.transfers} trans={trans} />
    </div>
  );
}

const isUnderWay = ({ profile, onProfile }: Profiling): boolean => onProfile !== null && profile?.done === false;

function ProfileButton(props: Profiling & { trans: TranslationBundle }): React.ReactElement | null {
  const { onProfile, trans } = props;
  return (
    onProfile && (
      <SmallButton
        onClick={onProfile}
        busy={isUnderWay(props)}
        hint={trans.__('Trace the next %1 steps on all tasks', PROFILE_STEPS)}
      >
        {trans.__('Profile')}
      </SmallButton>
    )
  );
}

function ProfileWord(props: Profiling & { trans: TranslationBundle }): React.ReactElement {
  const { profile, refused, trans } = props;
  const ended = profile?.done ? profile.message : '';
  return (
    <div role="status">
      {isUnderWay(props) && (
        <p className="jp-dtf-faint jp-dtf-none">
          {trans._n('Tracing the next step…', 'Tracing the next %1 steps…', profile?.steps ?? 0)}
        </p>
      )}
      {!isUnderWay(props) && (refused || ended) !== '' && (
        <p className="jp-dtf-problem jp-dtf-none">{trans.__('No step was traced: %1', refused || ended)}</p>
      )}
    </div>
  );
}

function NoTrace(props: {
  onReload: (() => void) | null;
  profiling: Profiling;
  trans: TranslationBundle;
}): React.ReactElement {
  const { onReload, profiling, trans } = props;
  return (
    <div className="jp-dtf-empty">
      <p>
        {trans.__('A timeline shows which operation ran on which device, and which tensors were sent between tasks.')}
      </p>
      {profiling.onProfile && (
        <>
          <p>{trans.__('This run has no timeline yet. Profile records the next steps on all tasks.')}</p>
          <p>
            <ProfileButton {...profiling} trans={trans} />
          </p>
        </>
      )}
      <ProfileWord {...profiling} trans={trans} />
      <p>{trans.__('The steps to trace can also be chosen when a run is started:')}</p>
      <pre tabIndex={0}>
        cluster.fit(model, x, y, trace_steps=(10, 12)){'\n'}
        cluster.run(program, args, trace_steps=(10, 12))
      </pre>
      {onReload && <SmallButton onClick={onReload}>{trans.__('Check again')}</SmallButton>}
    </div>
  );
}

function Warnings({ warnings, trans }: { warnings: readonly string[]; trans: TranslationBundle }) {
  if (warnings.length === 0) {
    return null;
  }
  return (
    <details className="jp-dtf-note jp-dtf-timeline-warnings" open={warnings.length <= 3}>
      <summary>
        {trans._n('⚠ %1 operation did not run as placed', '⚠ %1 operations did not run as placed', warnings.length)}
      </summary>
      <ul>
        {warnings.map(warning => (
          <li key={warning}>{warning}</li>
        ))}
      </ul>
    </details>
  );
}

function Totals(props: { trace: TraceData; colours: Map<string, string>; trans: TranslationBundle }) {
  const { trace, colours, trans } = props;
  const totals = React.useMemo(() => totalsOf(trace), [trace]);
  return (
    <table className="jp-dtf-table">
      <caption>{trans.__('Where the time goes')}</caption>
      <thead>
        <tr>
          <th scope="col">{trans.__('Device')}</th>
          <th scope="col">{trans.__('Operation')}</th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Count')}
          </th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Total')}
          </th>
        </tr>
      </thead>
      <tbody>
        {totals.slice(0, MOST_ROWS).map(total => (
          <tr key={`${total.device} ${total.type}`}>
            <th scope="row" title={total.device}>
              <span className="jp-dtf-swatch" style={{ background: colours.get(total.task) }} />
              {total.name}
            </th>
            <td>{total.type}</td>
            <td className="jp-dtf-number">{total.count}</td>
            <td className="jp-dtf-number">{formatValue(total.duration_us / 1e6, 'seconds')}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Transfers({ transfers, trans }: { transfers: readonly Transfer[]; trans: TranslationBundle }) {
  if (transfers.length === 0) {
    return null;
  }
  const largest = [...transfers].sort((a, b) => b.bytes - a.bytes).slice(0, MOST_ROWS);
  return (
    <table className="jp-dtf-table">
      <caption>{trans.__('Transfers between tasks')}</caption>
      <thead>
        <tr>
          <th scope="col">{trans.__('Tensor')}</th>
          <th scope="col">{trans.__('From')}</th>
          <th scope="col">{trans.__('To')}</th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Step')}
          </th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Size')}
          </th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Duration')}
          </th>
        </tr>
      </thead>
      <tbody>
        {largest.map((transfer, index) => (
          <tr key={index}>
            <th scope="row">{transfer.tensor}</th>
            <td title={transfer.source}>{taskOf(transfer.source)}</td>
            <td title={transfer.target}>{taskOf(transfer.target)}</td>
            <td className="jp-dtf-number">{transfer.step}</td>
            <td className="jp-dtf-number">{formatBytes(transfer.bytes)}</td>
            <td className="jp-dtf-number">{formatValue(transfer.duration_us / 1e6, 'seconds')}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
