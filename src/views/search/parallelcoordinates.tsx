import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { formatNumber } from '../../model/format';
import { signOf, Trial } from '../../model/search';
import { Axis, bestTenth, Brush, Brushes, choiceAt, placeOf, ticksOf, valueAt } from '../../model/searchaxes';
import { SmallButton } from '../controls';
import { useWidth } from '../hooks';
import { followPointer } from '../pointerdrag';
import { SearchViewProps, trialText } from './searchviewshared';

const SIDE_PX = 56;
const TOP_PX = 30;
const BOTTOM_PX = 14;
const HEIGHT_PX = 320;
const PLOT_PX = HEIGHT_PX - TOP_PX - BOTTOM_PX;
const GRAB_PX = 16;
// A drag shorter than this is a click, px: it removes the brush.
const CLICK_PX = 4;
// With more trials than this, lines are fainter.
const MANY = 100;

/**
 * Parallel coordinates: one line for each trial across all parameters and objectives. Brushes on an axis filter the
 * trials in the whole view.
 */
export function Parallel(
  props: SearchViewProps & {
    axes: readonly Axis[];
    brushes: Brushes;
    onBrush: (axis: string, brush: Brush | null) => void;
  }
): React.ReactElement {
  const { search, axes, brushes, chosen, looked, trans, onBrush } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const [hovered, setHovered] = React.useState<Trial | null>(null);
  const gap = axes.length > 1 ? (width - 2 * SIDE_PX) / (axes.length - 1) : 0;
  const at = React.useCallback((index: number) => SIDE_PX + index * gap, [gap]);
  const isChosen = React.useMemo(() => new Set(chosen), [chosen]);
  const best = bestTenth(search);
  const pathOf = React.useCallback((trial: Trial) => pathThrough(trial, axes, at), [axes, at]);
  const shownTrial = hovered ?? looked;
  const find = (event: React.PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    return nearest(chosen, axes, at, event.clientX - box.left, event.clientY - box.top);
  };
  return (
    <div className="jp-dtf-parallel">
      <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Selection of trials')}>
        <SmallButton
          disabled={best === null}
          hint={trans.__('Choose the best tenth of the complete trials, by the first objective')}
          onClick={() => onBrush(`objective ${search.objectives[0]!.metric}`, best)}
        >
          {trans.__('Top 10%')}
        </SmallButton>
        <span className="jp-dtf-faint">
          {trans.__('Drag along an axis to choose a range; click the axis to clear it')}
        </span>
      </div>
      <div ref={host} className="jp-dtf-parallel-plot">
        <svg
          width={width}
          height={HEIGHT_PX}
          aria-hidden="true"
          onPointerMove={event => setHovered(find(event))}
          onPointerLeave={() => setHovered(null)}
          onClick={() => hovered && props.onLook(hovered)}
        >
          <Lines trials={search.trials} isChosen={isChosen} pathOf={pathOf} shades={shadesOf(search)} />
          {axes.map((each, index) => (
            <AxisLine
              key={each.id}
              axis={each}
              x={at(index)}
              room={gap || width}
              isLast={index === axes.length - 1}
              brush={brushes.get(each.id)}
              onBrush={brush => onBrush(each.id, brush)}
            />
          ))}
          {shownTrial && isChosen.has(shownTrial) && (
            <path className="jp-dtf-parallel-looked" d={pathOf(shownTrial)}>
              <title>{trialText(shownTrial, search, trans)}</title>
            </path>
          )}
        </svg>
      </div>
      <p className="jp-dtf-faint jp-dtf-parallel-said">
        {shownTrial ? trialText(shownTrial, search, trans) : trans.__('Point at a line to see which trial it is.')}
      </p>
      <fieldset className="jp-dtf-brushes">
        <legend>{trans.__('Selection on each axis')}</legend>
        {axes.map(each => (
          <BrushFields
            key={each.id}
            axis={each}
            brush={brushes.get(each.id)}
            trans={trans}
            onBrush={brush => onBrush(each.id, brush)}
          />
        ))}
      </fieldset>
    </div>
  );
}

/** The opacity of each complete trial's line: the better, the more opaque. */
function shadesOf(search: SearchViewProps['search']): ReadonlyMap<Trial, number> {
  const sign = signOf(search.objectives[0]);
  const complete = search.trials.filter(trial => trial.state === 'complete' && trial.value !== null);
  complete.sort((a, b) => sign * (a.value! - b.value!));
  return new Map(complete.map((trial, index) => [trial, 1 - index / Math.max(1, complete.length - 1)]));
}

const Lines = React.memo(function Lines(props: {
  trials: readonly Trial[];
  isChosen: ReadonlySet<Trial>;
  pathOf: (trial: Trial) => string;
  shades: ReadonlyMap<Trial, number>;
}): React.ReactElement {
  const { trials, isChosen, pathOf, shades } = props;
  const dense = Math.min(1, Math.sqrt(MANY / Math.max(1, isChosen.size)));
  return (
    <g className="jp-dtf-parallel-lines">
      {trials.map(trial => {
        const shade = shades.get(trial);
        return (
          <path
            key={trial.run.id}
            d={pathOf(trial)}
            data-trial={trial.number}
            className={`${isChosen.has(trial) ? '' : 'jp-mod-left'} ${shade === undefined ? 'jp-mod-open' : ''}`}
            style={
              shade === undefined ? undefined : { strokeOpacity: shade === 1 ? 1 : dense * (0.2 + 0.75 * shade ** 2) }
            }
          />
        );
      })}
    </g>
  );
});

/** The path through a trial's values, interrupted where a value is missing. */
function pathThrough(trial: Trial, axes: readonly Axis[], at: (index: number) => number): string {
  let open = false;
  return axes
    .map((each, index) => {
      const place = placeOf(each, each.read(trial));
      if (place === null) {
        open = false;
        return '';
      }
      const command = open ? 'L' : 'M';
      open = true;
      return `${command}${at(index).toFixed(1)} ${yOf(place).toFixed(1)}`;
    })
    .join('');
}

function yOf(place: number): number {
  return TOP_PX + (1 - place) * PLOT_PX;
}

/** The trial whose line is nearest to a point, if any is close. */
function nearest(
  trials: readonly Trial[],
  axes: readonly Axis[],
  at: (index: number) => number,
  x: number,
  y: number
): Trial | null {
  const right = axes.findIndex((_, index) => at(index) > x);
  if (right < 1) {
    return null;
  }
  const [one, other] = [axes[right - 1]!, axes[right]!];
  const part = (x - at(right - 1)) / (at(right) - at(right - 1));
  let [found, distance]: [Trial | null, number] = [null, 8];
  for (const trial of trials) {
    const [from, to] = [placeOf(one, one.read(trial)), placeOf(other, other.read(trial))];
    if (from !== null && to !== null) {
      const away = Math.abs(yOf(from + part * (to - from)) - y);
      [found, distance] = away < distance ? [trial, away] : [found, distance];
    }
  }
  return found;
}

function AxisLine(props: {
  axis: Axis;
  x: number;
  /** Distance to the next axis, px. */
  room: number;
  isLast: boolean;
  brush: Brush | undefined;
  onBrush: (brush: Brush | null) => void;
}): React.ReactElement {
  const { axis, x, room, isLast, brush, onBrush } = props;
  const characters = Math.max(4, Math.floor(room / 7) - 1);
  const onPointerDown = (event: React.PointerEvent<SVGRectElement>) => {
    const target = event.currentTarget;
    const top = target.ownerSVGElement!.getBoundingClientRect().top;
    const placeAt = (clientY: number) => 1 - (clientY - top - TOP_PX) / PLOT_PX;
    const from = event.clientY;
    event.stopPropagation();
    followPointer(event.pointerId, target, {
      move: moving => onBrush(brushOf(axis, placeAt(from), placeAt(moving.clientY))),
      release: ({ clientY }) => {
        if (Math.abs(clientY - from) < CLICK_PX) {
          const isChoice = axis.kind === 'choices' && !brush;
          onBrush(isChoice ? brushOf(axis, placeAt(from), placeAt(from)) : null);
        }
      }
    });
  };
  const [low, high] = brush ? extentOf(axis, brush) : [0, 0];
  return (
    <g className="jp-dtf-parallel-axis" data-axis={axis.id}>
      <text x={x} y={14} textAnchor="middle" className="jp-dtf-parallel-title">
        {axis.title.length > characters ? `${axis.title.slice(0, characters - 1)}…` : axis.title}
        <title>{axis.title}</title>
      </text>
      <line x1={x} x2={x} y1={TOP_PX} y2={TOP_PX + PLOT_PX} />
      {ticksOf(axis, formatNumber).map(tick => (
        <text key={tick.place} x={isLast ? x + 5 : x - 5} y={yOf(tick.place) + 4} textAnchor={isLast ? 'start' : 'end'}>
          {tick.text.length > 9 ? `${tick.text.slice(0, 8)}…` : tick.text}
        </text>
      ))}
      {brush && (
        <rect
          className="jp-dtf-parallel-brush"
          x={x - GRAB_PX / 2}
          y={yOf(high)}
          width={GRAB_PX}
          height={Math.max(3, yOf(low) - yOf(high))}
        />
      )}
      <rect
        className="jp-dtf-parallel-grab"
        x={x - GRAB_PX / 2}
        y={TOP_PX - 6}
        width={GRAB_PX}
        height={PLOT_PX + 12}
        onPointerDown={onPointerDown}
        onClick={event => event.stopPropagation()}
      />
    </g>
  );
}

function brushOf(axis: Axis, one: number, other: number): Brush {
  if (axis.kind === 'choices') {
    return { choice: choiceAt(axis, other) };
  }
  return { low: valueAt(axis, Math.min(one, other)), high: valueAt(axis, Math.max(one, other)) };
}

function extentOf(axis: Axis, brush: Brush): [number, number] {
  if ('choice' in brush) {
    const index = axis.choices.indexOf(brush.choice);
    return [index / axis.choices.length, (index + 1) / axis.choices.length];
  }
  const place = (value: number) => Math.min(1, Math.max(0, placeOf(axis, value) ?? 0));
  return [place(brush.low), place(brush.high)];
}

/** Fields that set a brush by keyboard, or to exact numbers. */
function BrushFields(props: {
  axis: Axis;
  brush: Brush | undefined;
  trans: TranslationBundle;
  onBrush: (brush: Brush | null) => void;
}): React.ReactElement {
  const { axis, brush, trans, onBrush } = props;
  if (axis.kind === 'choices') {
    const choice = brush && 'choice' in brush ? brush.choice : '';
    return (
      <label>
        <span>{axis.title}</span>
        <select
          value={choice}
          onChange={event => onBrush(event.target.value === '' ? null : { choice: event.target.value })}
        >
          <option value="">{trans.__('all')}</option>
          {axis.choices.map(each => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      </label>
    );
  }
  const [low, high] = brush && 'low' in brush ? [brush.low, brush.high] : [null, null];
  const set = (from: number | null, to: number | null) =>
    onBrush(from === null && to === null ? null : { low: from ?? -Infinity, high: to ?? Infinity });
  const field = (label: string, value: number | null, change: (value: number | null) => void) => (
    <input
      type="number"
      step="any"
      aria-label={label}
      placeholder={label === trans.__('%1 from', axis.title) ? formatNumber(axis.low) : formatNumber(axis.high)}
      value={value === null || !Number.isFinite(value) ? '' : Number(value.toPrecision(4))}
      onChange={event => change(event.target.value === '' ? null : Number(event.target.value))}
    />
  );
  return (
    <span className="jp-dtf-brush-field">
      <span>{axis.title}</span>
      {field(trans.__('%1 from', axis.title), low, value => set(value, high))}
      <span aria-hidden="true">–</span>
      {field(trans.__('%1 to', axis.title), high, value => set(low, value))}
    </span>
  );
}
