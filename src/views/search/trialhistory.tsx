import React from 'react';

import { formatNumber } from '../../model/format';
import { curveOf, signOf, Trial } from '../../model/search';
import { Axis, extent, placeOf, roundTicks } from '../../model/searchaxes';
import { useWidth } from '../hooks';
import { SearchViewProps, trialText } from './searchviewshared';

const HEIGHT = 260;
const BOX = { left: 56, right: 14, top: 10, bottom: 30 };

/**
 * The values that trials have reported over their steps, with the points where unpromising ones were pruned; and the
 * best value so far.
 */
export function History(props: SearchViewProps): React.ReactElement {
  const { search, chosen, trans } = props;
  const [log, setLog] = React.useState(false);
  const host = React.useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const what = search.objectives[0]?.metric ?? trans.__('metric');
  const curves = React.useMemo(
    () => chosen.map(trial => ({ trial, points: curveOf(trial) })).filter(({ points }) => points.length > 0),
    [chosen]
  );
  const values = curves.flatMap(({ points }) => points.map(([, value]) => value));
  const canLog = values.length > 0 && values.every(value => value > 0);
  const kind = log && canLog ? 'log' : 'linear';
  const steps = curves.flatMap(({ points }) => points.map(([step]) => step));
  const pruned = chosen.filter(trial => trial.state === 'pruned').length;
  return (
    <div className="jp-dtf-search-history">
      <div ref={host} />
      <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Trends')}>
        <label>
          <input type="checkbox" checked={log} disabled={!canLog} onChange={event => setLog(event.target.checked)} />{' '}
          {trans.__('log')}
        </label>
        <span className="jp-dtf-faint">{trans._n('%1 trial was pruned (✕)', '%1 trials were pruned (✕)', pruned)}</span>
      </div>
      <h3>{trans.__('%1 over the steps of each trial', what)}</h3>
      {values.length === 0 ? (
        <p className="jp-dtf-faint">{trans.__('No trial has reported anything yet.')}</p>
      ) : (
        <Frame
          width={width}
          x={numbers('step', steps, 'linear')}
          y={numbers(what, values, kind)}
          label={trans.__('Trends of %1 trials', curves.length)}
        >
          {(at, up) =>
            curves.map(({ trial, points }) => (
              <Course key={trial.run.id} trial={trial} points={points} at={at} up={up} {...props} />
            ))
          }
        </Frame>
      )}
      {search.objectives.length > 0 && <BestSoFar width={width} {...props} />}
    </div>
  );
}

/** Whether a label is a whole number: steps and trials are counted, so there are no values in between. */
function isWhole(text: string): boolean {
  return !text.includes('.') || /[kMG]$/.test(text);
}

function numbers(title: string, values: readonly number[], kind: 'linear' | 'log'): Axis {
  const [low, high] = values.length > 0 ? extent(values) : [0, 1];
  return { id: title, title, read: () => undefined, kind, low, high, choices: [] };
}

type Scale = (value: number) => number;

function Frame(props: {
  width: number;
  x: Axis;
  y: Axis;
  label: string;
  children: (at: Scale, up: Scale) => React.ReactNode;
}): React.ReactElement {
  const { width, x, y, label } = props;
  const wide = Math.max(50, width - BOX.left - BOX.right);
  const high = HEIGHT - BOX.top - BOX.bottom;
  const at = (value: number) => BOX.left + (placeOf(x, value) ?? 0) * wide;
  const up = (value: number) => BOX.top + (1 - (placeOf(y, value) ?? 0)) * high;
  return (
    <svg className="jp-dtf-search-chart" width={width} height={HEIGHT} role="img" aria-label={label}>
      {roundTicks(y, 5, formatNumber).map(tick => (
        <g key={tick.place} className="jp-dtf-chart-tick">
          <line
            x1={BOX.left}
            x2={BOX.left + wide}
            y1={BOX.top + (1 - tick.place) * high}
            y2={BOX.top + (1 - tick.place) * high}
          />
          <text x={BOX.left - 6} y={BOX.top + (1 - tick.place) * high + 4} textAnchor="end">
            {tick.text}
          </text>
        </g>
      ))}
      {roundTicks(x, 6, formatNumber)
        .filter(tick => isWhole(tick.text))
        .map(tick => (
          <text
            key={tick.place}
            className="jp-dtf-chart-label"
            x={BOX.left + tick.place * wide}
            y={HEIGHT - 14}
            textAnchor="middle"
          >
            {tick.text}
          </text>
        ))}
      <text className="jp-dtf-chart-label" x={BOX.left + wide / 2} y={HEIGHT - 2} textAnchor="middle">
        {x.title}
      </text>
      {props.children(at, up)}
    </svg>
  );
}

function Course(
  props: SearchViewProps & { trial: Trial; points: ReturnType<typeof curveOf>; at: Scale; up: Scale }
): React.ReactElement {
  const { trial, points, at, up, search, looked, trans, onLook } = props;
  const [step, value] = points[points.length - 1]!;
  const path = points
    .map(([x, y], index) => `${index > 0 ? 'L' : 'M'}${at(x).toFixed(1)} ${up(y).toFixed(1)}`)
    .join('');
  return (
    <g
      className="jp-dtf-course"
      data-trial={trial.number}
      data-state={trial.state}
      data-best={search.best.includes(trial) || undefined}
      data-looked={trial === looked || undefined}
      onClick={() => onLook(trial)}
    >
      <title>{trialText(trial, search, trans)}</title>
      <path d={points.length > 1 ? path : `${path}h.1`} />
      {trial.state === 'pruned' && (
        <path className="jp-dtf-pruned" d={`M${at(step) - 3.5} ${up(value) - 3.5}l7 7m0 -7l-7 7`} />
      )}
    </g>
  );
}

/** The value of each complete trial, in order of their numbers, and the best value up to each trial. */
function BestSoFar(props: SearchViewProps & { width: number }): React.ReactElement {
  const { search, chosen, looked, trans, onLook, width } = props;
  const [objective] = search.objectives;
  const sign = signOf(objective);
  const complete = chosen.filter(trial => trial.state === 'complete' && trial.value !== null);
  if (complete.length === 0) {
    return <p className="jp-dtf-faint">{trans.__('No trial is complete yet.')}</p>;
  }
  const values = complete.map(trial => trial.value!);
  let best = Infinity;
  const stairs = complete.map(trial => [trial.number, sign * (best = Math.min(best, sign * trial.value!))] as const);
  return (
    <>
      <h3>{trans.__('%1 of each trial, and the best so far', objective!.metric)}</h3>
      <Frame
        width={width}
        x={numbers(
          trans.__('trial'),
          complete.map(trial => trial.number),
          'linear'
        )}
        y={numbers(objective!.metric, values, 'linear')}
        label={trans.__('Values of %1 trials', complete.length)}
      >
        {(at, up) => (
          <>
            <path
              className="jp-dtf-best-line"
              d={stairs
                .map(([number, value], index) =>
                  index > 0 ? `H${at(number)}V${up(value)}` : `M${at(number)} ${up(value)}`
                )
                .join('')}
            />
            {complete.map(trial => (
              <circle
                key={trial.run.id}
                className="jp-dtf-scatter-point"
                data-state={trial.state}
                data-best={search.best.includes(trial) || undefined}
                data-looked={trial === looked || undefined}
                cx={at(trial.number)}
                cy={up(trial.value!)}
                r={search.best.includes(trial) || trial === looked ? 5 : 3.5}
                onClick={() => onLook(trial)}
              >
                <title>{trialText(trial, search, trans)}</title>
              </circle>
            ))}
          </>
        )}
      </Frame>
    </>
  );
}
