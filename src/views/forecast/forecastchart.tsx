import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { Forecast } from '../../api/schema';
import { countsOf, isPossible, type Measured, nearestCount } from '../../model/forecasttable';
import { formatNumber, formatPercent } from '../../model/format';
import { PALETTE } from '../../plots/palette';
import type { ScaleChart } from '../../plots/scalechart';
import { readTheme } from '../../plots/theme';

/** The color of each forecast, the same in all of its charts. */
export function colourOf(index: number): string {
  return PALETTE[index % PALETTE.length]!;
}

/** Examples per second over the number of tasks. Drawn by Bokeh; the pointer or the arrow keys show values. */
export function ForecastChart(props: {
  forecasts: readonly Forecast[];
  measured: readonly Measured[];
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { forecasts, measured, themeChanged, trans } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const chart = React.useRef<ScaleChart | null>(null);
  const [loaded, setLoaded] = React.useState(false);
  const [problem, setProblem] = React.useState('');
  const [chosen, setChosen] = React.useState<number | null>(null);
  React.useEffect(() => {
    let gone = false;
    Promise.all([import('../../plots/scalechart'), import('../../plots/bokeh')])
      .then(async ([{ ScaleChart }, { loadBokeh }]) => {
        const bokeh = await loadBokeh();
        if (!gone) {
          chart.current = new ScaleChart(bokeh, host.current!, {
            x: trans.__('tasks'),
            y: trans.__('examples per second')
          });
          setLoaded(true);
        }
      })
      .catch((error: unknown) => !gone && setProblem(String(error)));
    return () => {
      gone = true;
      chart.current?.dispose();
      chart.current = null;
    };
  }, [trans]);
  React.useEffect(() => {
    const draw = () =>
      void chart.current
        ?.draw(forecasts, measured, readTheme(host.current!))
        .catch((error: unknown) => setProblem(String(error)));
    if (loaded) {
      draw();
    }
    themeChanged?.connect(draw);
    return () => void themeChanged?.disconnect(draw);
  }, [loaded, forecasts, measured, themeChanged]);

  const counts = countsOf(forecasts);
  const at = nearestCount(counts, chosen ?? Infinity) || 1;
  const place = counts.indexOf(at);
  const onKeyDown = (event: React.KeyboardEvent) => {
    const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: counts.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      setChosen(counts[Math.min(counts.length - 1, Math.max(0, to))] ?? null);
    }
  };
  const onPointerMove = (event: React.PointerEvent) => {
    const frame = chart.current?.frame;
    if (frame && counts.length > 0) {
      const { left } = event.currentTarget.getBoundingClientRect();
      const share = (event.clientX - left - frame.left) / frame.width;
      setChosen(nearestCount(counts, chart.current!.tasksAt(share)));
    }
  };
  const frame = chosen === null ? null : chart.current?.frame;
  const values = forecasts.map(forecast => forecast.points.find(({ tasks }) => tasks === at));
  const text = [
    trans._n('%1 task', '%1 tasks', at),
    ...forecasts.map(({ title }, index) => {
      const point = values[index];
      return `${title}: ${point ? pointText(point.examples_per_second, point.efficiency, point.problem, trans) : '–'}`;
    })
  ].join('; ');
  return (
    <div className="jp-dtf-forecast-chart">
      {problem !== '' && <p className="jp-dtf-problem">{trans.__('The plots could not be loaded: %1', problem)}</p>}
      <div
        className="jp-dtf-forecast-area"
        role="slider"
        tabIndex={0}
        aria-label={trans.__('Examples per second by number of tasks: move with the arrow keys')}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, counts.length - 1)}
        aria-valuenow={Math.max(0, place)}
        aria-valuetext={text}
        onKeyDown={onKeyDown}
        onPointerMove={onPointerMove}
        onPointerLeave={() => setChosen(null)}
      >
        <div ref={host} className="jp-dtf-forecast-host" />
        {frame && (
          <span
            className="jp-dtf-heat-at"
            style={{
              left: frame.left + frame.width * chart.current!.shareOf(at),
              top: frame.top,
              bottom: 'auto',
              height: frame.height
            }}
          />
        )}
      </div>
      <table className="jp-dtf-table jp-dtf-forecast-legend">
        <caption>
          {trans._n('With %1 task', 'With %1 tasks', at)}
          <span className="jp-dtf-faint">
            {' · '}
            {trans.__('dotted: linear scaling; area: uncertainty; ×: would not work')}
            {measured.length > 0 && ` · ${trans.__('◆: measured')}`}
          </span>
        </caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('Strategy')}</th>
            <th scope="col" className="jp-dtf-number">
              {trans.__('Examples/s')}
            </th>
            <th scope="col" className="jp-dtf-number">
              {trans.__('Range')}
            </th>
            <th scope="col" className="jp-dtf-number">
              {trans.__('Efficiency')}
            </th>
            <th scope="col" className="jp-dtf-number">
              {trans.__('Pays off up to')}
            </th>
          </tr>
        </thead>
        <tbody>
          {forecasts.map((forecast, index) => {
            const point = values[index];
            return (
              <tr key={index}>
                <th scope="row">
                  <span className="jp-dtf-swatch" style={{ background: colourOf(index) }} />
                  {forecast.title}
                  {point && !isPossible(point) && <div className="jp-dtf-problem">{point.problem}</div>}
                </th>
                <td className="jp-dtf-number">{point ? formatNumber(point.examples_per_second) : ''}</td>
                <td className="jp-dtf-number">
                  {point ? `${formatNumber(point.low)} – ${formatNumber(point.high)}` : ''}
                </td>
                <td className="jp-dtf-number">{point ? formatPercent(point.efficiency) : ''}</td>
                <td className="jp-dtf-number" title={forecast.why}>
                  {trans._n('%1 task', '%1 tasks', forecast.pays_until)}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function pointText(speed: number, efficiency: number, problem: string, trans: TranslationBundle): string {
  return problem === ''
    ? trans.__('%1 examples per second, efficiency %2', formatNumber(speed), formatPercent(efficiency))
    : problem;
}
