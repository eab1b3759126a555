import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import { formatNumber, formatValue, metricTitle, unitOf } from '../model/format';
import type { Line } from '../model/series';
import { type TaskHeat, taskHeat, xOf } from '../model/taskheat';
import { namesText } from './spreadtable';

// The opacity of the smallest and the largest value.
const [PALEST, DARKEST] = [0.06, 1];

/** One metric of many tasks over time: one row for each task, the more opaque the larger. Outliers are named below. */
export function TaskHeatMap(props: {
  metric: string;
  /** The metrics to choose from. */
  metrics: readonly string[];
  onMetric: (metric: string) => void;
  lines: readonly Line[];
  tasks: readonly string[];
  /** The label of the x axis. */
  xName: string;
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { metric, metrics, lines, tasks, themeChanged, trans } = props;
  const title = React.useId();
  const version = lines.reduce((newest, line) => Math.max(newest, line.version), 0);
  // eslint-disable-next-line react-hooks/exhaustive-deps -- new lines are created each time; the version says whether they changed
  const heat = React.useMemo(() => taskHeat(lines, tasks), [metric, version, tasks]);
  const unit = unitOf(metric);
  const outliers = heat?.spread.outliers ?? [];
  return (
    <section className="jp-dtf-task-heat" aria-labelledby={title}>
      <div className="jp-dtf-task-heat-head">
        <h3 id={title}>{trans.__('Tasks over time')}</h3>
        <label>
          {trans.__('metric')}
          <select value={metric} onChange={event => props.onMetric(event.target.value)}>
            {metrics.map(name => (
              <option key={name} value={name}>
                {metricTitle(name)}
              </option>
            ))}
          </select>
        </label>
      </div>
      {heat ? (
        <>
          <Picture heat={heat} metric={metric} xName={props.xName} themeChanged={themeChanged} trans={trans} />
          <p className={outliers.length > 0 ? 'jp-dtf-note' : 'jp-dtf-faint'}>
            {trans.__(
              'Mean of %1 tasks: %2, standard deviation %3.',
              heat.spread.count,
              formatValue(heat.spread.mean, unit),
              formatValue(heat.spread.deviation, unit)
            )}{' '}
            {outliers.length > 0 ? trans.__('Outliers: %1.', namesText(outliers, trans)) : trans.__('No outliers.')}
          </p>
        </>
      ) : (
        <p className="jp-dtf-faint">{trans.__('Nothing has been reported yet.')}</p>
      )}
    </section>
  );
}

interface At {
  row: number;
  column: number;
}

function Picture(props: {
  heat: TaskHeat;
  metric: string;
  xName: string;
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { heat, metric, xName, themeChanged, trans } = props;
  const canvas = React.useRef<HTMLCanvasElement>(null);
  const [chosen, setChosen] = React.useState<At | null>(null);
  React.useEffect(() => {
    const draw = () => canvas.current && paint(canvas.current, heat);
    draw();
    themeChanged?.connect(draw);
    return () => void themeChanged?.disconnect(draw);
  }, [heat, themeChanged]);
  const { tasks, columns } = heat;
  const within = ({ row, column }: At): At => ({
    row: Math.min(tasks.length - 1, Math.max(0, row)),
    column: Math.min(columns - 1, Math.max(0, column))
  });
  const at = within(chosen ?? { row: 0, column: columns - 1 });
  const onKeyDown = (event: React.KeyboardEvent) => {
    const to = {
      ArrowLeft: { ...at, column: at.column - 1 },
      ArrowRight: { ...at, column: at.column + 1 },
      ArrowUp: { ...at, row: at.row - 1 },
      ArrowDown: { ...at, row: at.row + 1 },
      PageUp: { ...at, row: at.row - 10 },
      PageDown: { ...at, row: at.row + 10 },
      Home: { ...at, column: 0 },
      End: { ...at, column: columns - 1 }
    }[event.key];
    if (to) {
      event.preventDefault();
      setChosen(within(to));
    }
  };
  const value = heat.values[at.row * columns + at.column]!;
  const unit = unitOf(metric);
  const said = Number.isFinite(value) ? formatValue(value, unit) : trans.__('nothing reported');
  const text = `${tasks[at.row]!} · ${xName} ${formatNumber(placeOf(heat, at.column))} · ${said}`;
  return (
    <div className="jp-dtf-heat">
      <span className="jp-dtf-heat-high">{tasks[0]}</span>
      <span className="jp-dtf-heat-low">{tasks[tasks.length - 1]}</span>
      <div
        className="jp-dtf-heat-area"
        role="slider"
        tabIndex={0}
        aria-label={trans.__(
          '%1 of each task over time: the up and down arrow keys move between tasks, the left and right arrow keys along the time axis',
          metricTitle(metric)
        )}
        aria-valuemin={0}
        aria-valuemax={columns - 1}
        aria-valuenow={at.column}
        aria-valuetext={text}
        onKeyDown={onKeyDown}
        onPointerMove={event => {
          const { left, top, width, height } = event.currentTarget.getBoundingClientRect();
          setChosen(
            within({
              row: Math.floor(((event.clientY - top) / Math.max(1, height)) * tasks.length),
              column: Math.floor(((event.clientX - left) / Math.max(1, width)) * columns)
            })
          );
        }}
        onPointerLeave={() => setChosen(null)}
      >
        <canvas ref={canvas} width={columns} height={tasks.length} />
        {chosen && (
          <>
            <span className="jp-dtf-heat-at" style={{ left: `${(100 * (at.column + 0.5)) / columns}%` }} />
            <span className="jp-dtf-heat-row" style={{ top: `${(100 * (at.row + 0.5)) / tasks.length}%` }} />
          </>
        )}
      </div>
      <span className="jp-dtf-heat-steps jp-dtf-number">
        <span>{formatNumber(heat.start)}</span>
        <span>
          {text}
          <span className="jp-dtf-faint">
            {' · '}
            {trans.__('faint: %1, strong: %2', formatValue(heat.low, unit), formatValue(heat.high, unit))}
          </span>
        </span>
        <span>{formatNumber(heat.end)}</span>
      </span>
    </div>
  );
}

/** The x at the center of a column, with the precision of its width. */
function placeOf(heat: TaskHeat, column: number): number {
  const x = xOf(heat, column);
  return heat.end - heat.start >= heat.columns - 1 ? Math.round(x) : Number(x.toPrecision(4));
}

/** Paint one pixel for each column of each task; the page stretches the canvas. */
function paint(canvas: HTMLCanvasElement, heat: TaskHeat): void {
  const context = canvas.getContext('2d');
  if (!context) {
    return;
  }
  const { columns, tasks, values, low, high } = heat;
  const [red = 0, green = 0, blue = 0] = (getComputedStyle(canvas).color.match(/[\d.]+/g) ?? []).map(Number);
  const image = context.createImageData(columns, tasks.length);
  values.forEach((value, index) => {
    if (Number.isFinite(value)) {
      const share = high > low ? Math.min(1, Math.max(0, (value - low) / (high - low))) : 0.5;
      image.data.set([red, green, blue, 255 * (PALEST + share * (DARKEST - PALEST))], 4 * index);
    }
  });
  context.putImageData(image, 0, 0);
}
