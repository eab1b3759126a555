import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { Histogram } from '../api/schema';
import { formatNumber, formatPercent } from '../model/format';
import { HeatMap, heatMap } from '../model/heatmap';

/** The distribution of a name's values over the steps: the higher the density, the darker. */
export function HistogramPlot(props: {
  name: string;
  histograms: readonly Histogram[];
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { name, histograms, themeChanged, trans } = props;
  const canvas = React.useRef<HTMLCanvasElement>(null);
  const map = React.useMemo(() => heatMap(histograms), [histograms]);
  const [column, setColumn] = React.useState<number | null>(null);
  React.useEffect(() => {
    const draw = () => canvas.current && map && paint(canvas.current, map);
    draw();
    themeChanged?.connect(draw);
    return () => void themeChanged?.disconnect(draw);
  }, [map, themeChanged]);
  const at = Math.min(column ?? histograms.length - 1, histograms.length - 1);
  const move = (event: React.KeyboardEvent) => {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: histograms.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      setColumn(Math.min(histograms.length - 1, Math.max(0, to)));
    }
  };
  const text = histograms[at] ? describe(histograms[at], trans) : '';
  return (
    <section className="jp-dtf-histogram" aria-label={name}>
      <h3 title={name}>{name}</h3>
      <p className="jp-dtf-faint jp-dtf-number">{text}</p>
      {map ? (
        <div className="jp-dtf-heat">
          <span className="jp-dtf-heat-high jp-dtf-number">{formatNumber(map.high)}</span>
          <span className="jp-dtf-heat-low jp-dtf-number">{formatNumber(map.low)}</span>
          <div
            className="jp-dtf-heat-area"
            role="slider"
            tabIndex={0}
            aria-label={trans.__('Histograms of %1: move along the steps with the arrow keys', name)}
            aria-valuemin={0}
            aria-valuemax={histograms.length - 1}
            aria-valuenow={at}
            aria-valuetext={text}
            onKeyDown={move}
            onPointerMove={event => {
              const { left, width } = event.currentTarget.getBoundingClientRect();
              const share = (event.clientX - left) / Math.max(1, width);
              setColumn(Math.min(histograms.length - 1, Math.max(0, Math.floor(share * histograms.length))));
            }}
            onPointerLeave={() => setColumn(null)}
          >
            <canvas ref={canvas} width={map.steps.length} height={map.rows} />
            {column !== null && (
              <span className="jp-dtf-heat-at" style={{ left: `${(100 * (at + 0.5)) / histograms.length}%` }} />
            )}
          </div>
          <span className="jp-dtf-heat-steps jp-dtf-number">
            <span>{formatNumber(map.steps[0]!)}</span>
            <span>{trans.__('step')}</span>
            <span>{formatNumber(map.steps[map.steps.length - 1]!)}</span>
          </span>
        </div>
      ) : (
        <p className="jp-dtf-faint">{trans.__('None of its values was finite.')}</p>
      )}
    </section>
  );
}

/** The description of one step. */
function describe(one: Histogram, trans: TranslationBundle): string {
  const total = one.counts.reduce((sum, count) => sum + count, 0);
  const parts = [trans.__('step %1', formatNumber(one.step))];
  if (total > 0) {
    const most = one.counts.indexOf(Math.max(...one.counts));
    const width = (one.high - one.low) / one.counts.length;
    const start = one.low + most * width;
    parts.push(
      trans.__('%1 to %2', formatNumber(one.low), formatNumber(one.high)),
      trans.__('peak at %1 (%2)', formatNumber(start + width / 2), formatPercent(Math.max(...one.counts) / total))
    );
  }
  if (one.not_a_number > 0) {
    parts.push(trans.__('%1 NaN', formatNumber(one.not_a_number)));
  }
  if (one.infinite > 0) {
    parts.push(trans.__('%1 infinite', formatNumber(one.infinite)));
  }
  return parts.join(' · ');
}

/** Paint one pixel for each row of each step; the page stretches the canvas. */
function paint(canvas: HTMLCanvasElement, map: HeatMap): void {
  const context = canvas.getContext('2d');
  if (!context) {
    return;
  }
  const columns = map.steps.length;
  const colour = getComputedStyle(canvas).color;
  context.clearRect(0, 0, columns, map.rows);
  context.fillStyle = colour;
  for (let column = 0; column < columns; column++) {
    for (let row = 0; row < map.rows; row++) {
      const share = map.shares[column * map.rows + row]!;
      if (share > 0) {
        // The square root makes rare values visible.
        context.globalAlpha = Math.sqrt(share / map.most);
        context.fillRect(column, map.rows - 1 - row, 1, 1);
      }
    }
  }
}
