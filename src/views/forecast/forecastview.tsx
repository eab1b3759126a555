import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { Forecast, Hardware } from '../../api/schema';
import type { ForecastModel } from '../../model/forecasts';
import { type Measured, textOf } from '../../model/forecasttable';
import { formatBytes, formatNumber, formatPercent, formatValue } from '../../model/format';
import { CopyButton } from '../copybutton';
import { useSignals } from '../hooks';
import { ForecastChart } from './forecastchart';
import { ForecastControls } from './forecastcontrols';
import { ForecastParts } from './forecastparts';
import { partName, sourceText } from './forecasttext';

const NOTHING: readonly Measured[] = [];

/** The *Scale* view: the settings, examples per second over tasks, the parts of a step, and a table of all numbers. */
export function ForecastView(props: {
  model: ForecastModel;
  hardware: Hardware | null;
  measured?: readonly Measured[];
  ofRun?: boolean;
  copy: (text: string) => void;
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { model, hardware, ofRun = false, trans } = props;
  useSignals(model.changed);
  const { forecasts, problem } = model;
  return (
    <div className="jp-dtf-scaling" aria-busy={model.isAsking}>
      <ForecastControls
        choices={model.choices}
        ways={model.ways}
        hardware={hardware}
        ofRun={ofRun}
        onChoose={change => model.choose(change)}
        trans={trans}
      />
      {problem !== '' ? (
        <p className="jp-dtf-problem" role="alert">
          {problem}
        </p>
      ) : forecasts.length === 0 ? (
        <p className="jp-dtf-faint" role="status">
          {trans.__('Computing…')}
        </p>
      ) : (
        <>
          <Verdict forecasts={forecasts} trans={trans} />
          <ForecastChart
            forecasts={forecasts}
            measured={props.measured ?? NOTHING}
            themeChanged={props.themeChanged}
            trans={trans}
          />
          <ForecastParts forecasts={forecasts} trans={trans} />
          <Numbers forecasts={forecasts} copy={props.copy} trans={trans} />
          <Grounds forecasts={forecasts} trans={trans} />
        </>
      )}
    </div>
  );
}

/** For each forecast, the number of tasks beyond which more tasks no longer pay off. */
function Verdict(props: { forecasts: readonly Forecast[]; trans: TranslationBundle }): React.ReactElement {
  const { forecasts, trans } = props;
  const problems = [...new Set(forecasts.flatMap(forecast => forecast.problems.map(({ message }) => message)))];
  return (
    <div role="status" className="jp-dtf-forecast-verdict">
      {forecasts.map(({ title, why }, index) => (
        <p key={index}>
          <strong>{title}</strong>: {why}
        </p>
      ))}
      <p className="jp-dtf-faint">{[...new Set(forecasts.map(({ source }) => sourceText(source, trans)))].join(' ')}</p>
      {problems.map(message => (
        <p key={message} className="jp-dtf-problem">
          {message}
        </p>
      ))}
    </div>
  );
}

/** All numbers in a table that can be copied. */
function Numbers(props: {
  forecasts: readonly Forecast[];
  copy: (text: string) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { forecasts, trans } = props;
  const parts = ['input_s', 'compute_s', 'hidden_s', 'exposed_s', 'update_s', 'idle_s'] as const;
  const heads = [
    trans.__('Examples/s'),
    trans.__('Range'),
    trans.__('Efficiency'),
    trans.__('Step'),
    ...parts.map(part => partName(part, trans)),
    trans.__('Memory')
  ];
  return (
    <details className="jp-dtf-forecast-numbers">
      <summary>{trans.__('All numbers as a table')}</summary>
      <p>
        <CopyButton
          label={trans.__('Copy the table')}
          text={textOf(forecasts)}
          onCopy={text => props.copy(text)}
          trans={trans}
        />
      </p>
      {forecasts.map((forecast, index) => (
        <div key={index} className="jp-dtf-forecast-scroll" role="region" tabIndex={0} aria-label={forecast.title}>
          <table className="jp-dtf-table">
            <caption>{forecast.title}</caption>
            <thead>
              <tr>
                <th scope="col">{trans.__('Tasks')}</th>
                {heads.map(head => (
                  <th key={head} scope="col" className="jp-dtf-number">
                    {head}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {forecast.points.map(point => (
                <tr key={point.tasks}>
                  <th scope="row">
                    {point.tasks}
                    {point.servers > 0 && ` + ${trans.__('%1 ps', point.servers)}`}
                    {point.problem !== '' && <div className="jp-dtf-problem">{point.problem}</div>}
                  </th>
                  <td className="jp-dtf-number">{formatNumber(point.examples_per_second)}</td>
                  <td className="jp-dtf-number">
                    {formatNumber(point.low)} – {formatNumber(point.high)}
                  </td>
                  <td className="jp-dtf-number">{formatPercent(point.efficiency)}</td>
                  <td className="jp-dtf-number">{formatValue(point.step_seconds, 'seconds')}</td>
                  {parts.map(part => (
                    <td key={part} className="jp-dtf-number">
                      {formatValue(point.parts[part], 'seconds')}
                    </td>
                  ))}
                  <td className="jp-dtf-number">{formatBytes(point.memory_bytes)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ))}
    </details>
  );
}

/** The assumptions of the forecasts. */
function Grounds(props: { forecasts: readonly Forecast[]; trans: TranslationBundle }): React.ReactElement | null {
  const notes = [...new Set(props.forecasts.flatMap(forecast => forecast.notes))];
  return notes.length === 0 ? null : (
    <details className="jp-dtf-forecast-notes">
      <summary>{props.trans.__('Assumptions')}</summary>
      <ul>
        {notes.map(note => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </details>
  );
}
