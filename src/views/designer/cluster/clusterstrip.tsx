import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ClusterInfo, DesignProblem, DesignReport } from '../../../api/schema';
import { formatPercent, formatValue } from '../../../model/format';
import { StateMark } from '../../controls';
import { stateText } from '../../localizedtext';

/** The expected performance of a design, and all its problems; clicking a problem selects the item that it concerns. */
export function StatusStrip(props: {
  report: DesignReport | null;
  failure: string;
  /** The cluster that was started from the design, if it exists. */
  live: ClusterInfo | undefined;
  onProblem: (problem: DesignProblem) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { report, failure, live, trans } = props;
  const problems = report?.problems ?? [];
  const errors = problems.filter(({ level }) => level === 'error').length;
  const warnings = problems.length - errors;
  const counts = [
    errors > 0 ? trans._n('%1 problem', '%1 problems', errors) : '',
    warnings > 0 ? trans._n('%1 warning', '%1 warnings', warnings) : ''
  ].filter(words => words !== '');
  return (
    <footer className="jp-dtf-strip" role="status" aria-label={trans.__('Summary of the design')}>
      {live && (
        <span>
          <StateMark state={live.state} trans={trans} /> {live.name} · {stateText(live.state, trans)}
        </span>
      )}
      <span>{summary(report, failure, live !== undefined, trans)}</span>
      <span className="jp-dtf-spacer" />
      {problems.length > 0 && (
        <details className="jp-dtf-strip-problems">
          <summary data-level={errors > 0 ? 'error' : 'warning'}>
            {problems.length === 1 ? problems[0]!.message : counts.join(', ')}
          </summary>
          <ul>
            {problems.map(problem => (
              <li key={`${problem.field} ${problem.message}`}>
                <button type="button" className="jp-dtf-link" onClick={() => props.onProblem(problem)}>
                  {problem.field === '' ? trans.__('design') : problem.field}
                </button>{' '}
                <span className={problem.level === 'error' ? 'jp-dtf-problem' : undefined}>{problem.message}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </footer>
  );
}

function summary(report: DesignReport | null, failure: string, isStarted: boolean, trans: TranslationBundle): string {
  if (failure !== '') {
    return trans.__('Not checked: %1', failure);
  }
  if (!report) {
    return trans.__('Checking…');
  }
  const { prediction } = report;
  if (!prediction) {
    return report.problems.length === 0 && !isStarted ? trans.__('This cluster can be started') : '';
  }
  const fits = prediction.devices.every(({ problem }) => problem === '');
  return [
    prediction.calibrated
      ? trans.__('predicted step %1', formatValue(prediction.step_seconds, 'seconds'))
      : trans.__('predicted step %1, not calibrated', formatValue(prediction.step_seconds, 'seconds')),
    trans.__('bubble %1', formatPercent(prediction.bubble)),
    fits ? trans.__('fits') : trans.__('does not fit')
  ].join(' · ');
}
