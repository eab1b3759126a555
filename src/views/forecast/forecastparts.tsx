import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Forecast } from '../../api/schema';
import { barsOf, isPossible, longestStep, type Part, PARTS } from '../../model/forecasttable';
import { formatValue } from '../../model/format';
import { partName } from './forecasttext';

const ALL_PARTS: readonly Part[] = ['input_s', 'compute_s', 'hidden_s', 'exposed_s', 'update_s', 'idle_s'];

/** The parts of a step, one bar for each number of tasks in a forecast. */
export function ForecastParts(props: {
  forecasts: readonly Forecast[];
  trans: TranslationBundle;
}): React.ReactElement | null {
  const { forecasts, trans } = props;
  const [chosen, setChosen] = React.useState(0);
  const title = React.useId();
  const forecast = forecasts[Math.min(chosen, forecasts.length - 1)];
  if (!forecast) {
    return null;
  }
  const points = forecast.points.filter(isPossible);
  const longest = longestStep(points);
  return (
    <section className="jp-dtf-forecast-parts" aria-labelledby={title}>
      <div className="jp-dtf-forecast-head">
        <h3 id={title}>{trans.__('Where the time of a step goes')}</h3>
        {forecasts.length > 1 && (
          <label>
            {trans.__('strategy')}
            <select value={forecasts.indexOf(forecast)} onChange={event => setChosen(Number(event.target.value))}>
              {forecasts.map((each, index) => (
                <option key={index} value={index}>
                  {each.title}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      <ul className="jp-dtf-part-names" aria-hidden="true">
        {ALL_PARTS.map(part => (
          <li key={part}>
            <span className="jp-dtf-part" data-part={part} /> {partName(part, trans)}
          </li>
        ))}
      </ul>
      <ul className="jp-dtf-part-bars">
        {points.map(({ tasks, step_seconds, parts }) => {
          const words = [...PARTS, 'hidden_s' as const]
            .filter(part => parts[part] > 0)
            .map(part => `${partName(part, trans)} ${formatValue(parts[part], 'seconds')}`)
            .join(', ');
          return (
            <li key={tasks} title={words}>
              <span className="jp-dtf-number">{trans._n('%1 task', '%1 tasks', tasks)}</span>
              <span className="jp-dtf-part-bar" role="img" aria-label={words}>
                {barsOf(parts, longest).map(({ part, start, end }) => (
                  <span
                    key={part}
                    className="jp-dtf-part"
                    data-part={part}
                    style={{ left: `${100 * start}%`, width: `${100 * (end - start)}%` }}
                  />
                ))}
              </span>
              <span className="jp-dtf-number">{formatValue(step_seconds, 'seconds')}</span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
