import React from 'react';

import { formatNumber, formatPercent } from '../../model/format';
import type { Trial } from '../../model/search';
import { Association, associations, Axis, placeOf, roundTicks } from '../../model/searchaxes';
import { Bar } from '../controls';
import { SearchViewProps, shown, trialText } from './searchviewshared';

const WIDTH = 300;
const HEIGHT = 190;
// A weaker association does not indicate a direction.
const FAINT = 0.1;
const BOX = { left: 52, right: 12, top: 8, bottom: 24 };

/** Scatter plots of each parameter against the objective, the most strongly associated first. */
export function Scatter(props: SearchViewProps & { axes: readonly Axis[] }): React.ReactElement {
  const { search, axes, chosen, looked, trans, onLook } = props;
  const [index, setIndex] = React.useState(0);
  const found = React.useMemo(() => associations(search, index), [search, index]);
  const objective = search.objectives[index];
  const y = axes.find(axis => axis.id === `objective ${objective?.metric}`);
  if (!objective || !y) {
    return <p className="jp-dtf-faint jp-dtf-none">{trans.__('These trials have no objective.')}</p>;
  }
  const order = new Map(found.map(({ name }, place) => [name, place]));
  const names = [...search.parameters].sort((a, b) => (order.get(a) ?? 0) - (order.get(b) ?? 0));
  return (
    <div className="jp-dtf-scatters">
      {search.objectives.length > 1 && (
        <label className="jp-dtf-toolbar">
          {trans.__('objective')}
          <select value={index} onChange={event => setIndex(Number(event.target.value))}>
            {search.objectives.map(({ metric }, place) => (
              <option key={metric} value={place}>
                {metric}
              </option>
            ))}
          </select>
        </label>
      )}
      <p className="jp-dtf-faint">
        {found.length > 0
          ? trans.__(
              'Importance is the rank correlation with %1 over %2 complete trials (for categories, the correlation ratio). It measures association, for each parameter on its own. Hollow points are trials that are not complete.',
              objective.metric,
              search.trials.filter(trial => trial.state === 'complete').length
            )
          : trans.__('Estimating the importance of parameters requires at least four complete trials.')}
      </p>
      <div className="jp-dtf-scatter-grid">
        {names.map(name => (
          <Card
            key={name}
            name={name}
            x={axes.find(axis => axis.id === `parameter ${name}`)!}
            y={y}
            association={found.find(each => each.name === name)}
            trials={chosen}
            looked={looked}
            search={search}
            trans={trans}
            onLook={onLook}
          />
        ))}
      </div>
    </div>
  );
}

function Card(props: {
  name: string;
  x: Axis;
  y: Axis;
  association: Association | undefined;
  trials: readonly Trial[];
  looked: Trial | null;
  search: SearchViewProps['search'];
  trans: SearchViewProps['trans'];
  onLook: (trial: Trial) => void;
}): React.ReactElement {
  const { name, x, y, association, trials, looked, search, trans } = props;
  const wide = WIDTH - BOX.left - BOX.right;
  const high = HEIGHT - BOX.top - BOX.bottom;
  // The best trials are drawn on top.
  const onTop = (trial: Trial) => Number(search.best.includes(trial) || trial === looked);
  const points = [...trials]
    .sort((a, b) => onTop(a) - onTop(b))
    .flatMap(trial => {
      const [px, py] = [placeOf(x, x.read(trial)), placeOf(y, y.read(trial))];
      return px === null || py === null ? [] : [{ trial, cx: BOX.left + px * wide, cy: BOX.top + (1 - py) * high }];
    });
  const direction =
    (association?.strength ?? 0) < FAINT
      ? ''
      : association?.better === 'larger'
        ? trans.__('larger is better')
        : association?.better === 'smaller'
          ? trans.__('smaller is better')
          : '';
  const many = roundTicks(x, 4, formatNumber);
  const ticks = many.length > 6 ? many.filter((_, index) => index % Math.ceil(many.length / 6) === 0) : many;
  return (
    <figure className="jp-dtf-scatter" data-parameter={name}>
      <figcaption>
        <strong title={name}>{name}</strong>
        {association && (
          <>
            <Bar fraction={association.strength} label={trans.__('Importance of %1', name)} />
            <span className="jp-dtf-faint">
              {[formatPercent(association.strength), direction].filter(part => part !== '').join(' · ')}
            </span>
          </>
        )}
      </figcaption>
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={trans.__('%1 plotted against %2, %3 trials', y.title, name, points.length)}
      >
        {roundTicks(y, 5, formatNumber).map(tick => (
          <g key={tick.place} className="jp-dtf-chart-tick">
            <line
              x1={BOX.left}
              x2={WIDTH - BOX.right}
              y1={BOX.top + (1 - tick.place) * high}
              y2={BOX.top + (1 - tick.place) * high}
            />
            <text x={BOX.left - 5} y={BOX.top + (1 - tick.place) * high + 4} textAnchor="end">
              {tick.text}
            </text>
          </g>
        ))}
        {ticks.map(tick => (
          <text
            key={tick.place}
            className="jp-dtf-chart-label"
            x={BOX.left + tick.place * wide}
            y={HEIGHT - 8}
            textAnchor="middle"
          >
            {tick.text.length > 9 ? `${tick.text.slice(0, 8)}…` : tick.text}
          </text>
        ))}
        {points.map(({ trial, cx, cy }) => (
          <circle
            key={trial.run.id}
            className="jp-dtf-scatter-point"
            data-state={trial.state}
            data-looked={trial === looked || undefined}
            data-best={search.best.includes(trial) || undefined}
            cx={cx}
            cy={cy}
            r={trial === looked || search.best.includes(trial) ? 5 : 3.5}
            onClick={() => props.onLook(trial)}
          >
            <title>{trialText(trial, search, trans)}</title>
          </circle>
        ))}
      </svg>
      <span className="jp-dtf-unseen">
        {search.best.map(trial => trans.__('best at %1', shown(trial.run.parameters[name]))).join(', ')}
      </span>
    </figure>
  );
}
