import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { EfficiencyReport, PartGap } from '../../api/schema';
import { formatNumber, formatPercent, formatValue } from '../../model/format';

/** A run's performance compared with its forecast, part by part, and the conclusions. */
export function Efficiency(props: { report: EfficiencyReport; trans: TranslationBundle }): React.ReactElement {
  const { report, trans } = props;
  const title = React.useId();
  return (
    <section className="jp-dtf-efficiency" aria-labelledby={title}>
      <h3 id={title}>{trans.__('Efficiency of this run')}</h3>
      {report.steps > 0 && (
        <p>
          {trans.__(
            '%1 examples per second on %2 tasks over %3 steps; the forecast was %4.',
            formatNumber(report.examples_per_second),
            report.tasks,
            report.steps,
            formatNumber(report.forecast_examples_per_second)
          )}{' '}
          {report.efficiency !== null &&
            trans.__(
              'Efficiency: %1 of the speed of tasks that never wait for each other.',
              formatPercent(report.efficiency)
            )}
        </p>
      )}
      <ul>
        {report.findings.map(finding => (
          <li key={finding}>{finding}</li>
        ))}
      </ul>
      {report.gaps.length > 0 && (
        <table className="jp-dtf-table">
          <caption>{trans.__('A step, part by part')}</caption>
          <thead>
            <tr>
              <th scope="col">{trans.__('Part')}</th>
              <th scope="col" className="jp-dtf-number">
                {trans.__('Forecast')}
              </th>
              <th scope="col" className="jp-dtf-number">
                {trans.__('Measured')}
              </th>
              <th scope="col" className="jp-dtf-number">
                {trans.__('Gap')}
              </th>
              <th scope="col">{trans.__('Meaning')}</th>
            </tr>
          </thead>
          <tbody>
            {report.gaps.map(gap => (
              <tr key={gap.part}>
                <th scope="row">{gapName(gap, trans)}</th>
                <td className="jp-dtf-number">{formatValue(gap.forecast_s, 'seconds')}</td>
                <td className="jp-dtf-number">
                  {gap.measured_s === null ? '–' : formatValue(gap.measured_s, 'seconds')}
                </td>
                <td className="jp-dtf-number">{gapText(gap)}</td>
                <td>{gap.text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function gapName({ part }: PartGap, trans: TranslationBundle): string {
  const names: Record<string, string> = {
    step: trans.__('whole step'),
    input: trans._p('part of a step', 'input'),
    compute: trans._p('part of a step', 'compute'),
    exchange: trans._p('part of a step', 'exchange'),
    update: trans._p('part of a step', 'update'),
    idle: trans._p('part of a step', 'idle'),
    checkpoint: trans._p('part of a step', 'checkpoint')
  };
  return names[part] ?? part;
}

/** The difference from the forecast: `+1.2 ms`. */
function gapText({ forecast_s, measured_s }: PartGap): string {
  if (measured_s === null) {
    return '';
  }
  const gap = measured_s - forecast_s;
  return `${gap < 0 ? '−' : '+'}${formatValue(Math.abs(gap), 'seconds')}`;
}
