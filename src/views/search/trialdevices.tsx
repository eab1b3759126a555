import React from 'react';

import { formatDuration, formatPercent, formatTimeTicks } from '../../model/format';
import { timelineOf } from '../../model/search';
import { roundValues } from '../../model/searchaxes';
import { useNow, useWidth } from '../hooks';
import { SearchViewProps, trialStateText, trialText } from './searchviewshared';

const LABEL_PX = 130;
const RIGHT_PX = 12;
const LANE_PX = 20;
const GAP_PX = 12;
const AXIS_PX = 22;
const CHARACTER_PX = 7;

/** The trials over time, with one row for each host or GPU. */
export function Devices(props: SearchViewProps): React.ReactElement {
  const { search, chosen, looked, trans, onLook } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const now = useNow(search.isRunning);
  const { rows, start, end } = React.useMemo(() => timelineOf(chosen, now), [chosen, now]);
  const plot = Math.max(50, width - LABEL_PX - RIGHT_PX);
  const scale = plot / Math.max(1e-3, end - start);
  const bottom = rows.reduce((sum, row) => sum + row.lanes * LANE_PX + GAP_PX, 4);
  const ticks = roundValues(0, Math.max(1, end - start), Math.max(2, plot / 120));
  const labels = formatTimeTicks(ticks);
  const tops = rows.map(
    (_, index) => 4 + rows.slice(0, index).reduce((sum, row) => sum + row.lanes * LANE_PX + GAP_PX, 0)
  );
  return (
    <div className="jp-dtf-search-devices">
      <div ref={host} />
      {rows.length === 0 ? (
        <p className="jp-dtf-faint jp-dtf-none">{trans.__('No trial has begun yet.')}</p>
      ) : (
        <svg
          width={width}
          height={bottom + AXIS_PX}
          role="img"
          aria-label={trans.__(
            '%1 trials on %2 devices, over %3',
            chosen.length,
            rows.length,
            formatDuration(end - start)
          )}
        >
          {ticks.map((tick, index) => (
            <g key={index} className="jp-dtf-chart-tick">
              <line x1={LABEL_PX + tick * scale} x2={LABEL_PX + tick * scale} y1={0} y2={bottom} />
              <text x={LABEL_PX + tick * scale} y={bottom + 14} textAnchor={index === 0 ? 'start' : 'middle'}>
                {labels[index]}
              </text>
            </g>
          ))}
          {rows.map((row, index) => {
            const top = tops[index]!;
            return (
              <g key={row.place}>
                <text className="jp-dtf-device-name" x={4} y={top + 14}>
                  {trans.__('host %1', row.place)}
                </text>
                <text className="jp-dtf-chart-label" x={LABEL_PX - 8} y={top + 14} textAnchor="end">
                  {formatPercent(row.busy)}
                  <title>{trans.__('The fraction of the time during which it was busy')}</title>
                </text>
                {row.bars.map(bar => (
                  <g
                    key={bar.trial.run.id}
                    className="jp-dtf-device-bar"
                    data-state={bar.trial.state}
                    data-looked={bar.trial === looked || undefined}
                    onClick={() => onLook(bar.trial)}
                  >
                    <title>{`${trialText(bar.trial, search, trans)}, ${formatDuration(bar.end - bar.start)}`}</title>
                    <rect
                      x={LABEL_PX + (bar.start - start) * scale}
                      y={top + bar.lane * LANE_PX + 1}
                      width={Math.max(1.5, (bar.end - bar.start) * scale - 1)}
                      height={LANE_PX - 3}
                      rx={2}
                    />
                    {(bar.end - bar.start) * scale > CHARACTER_PX * String(bar.trial.number).length + 6 && (
                      <text x={LABEL_PX + (bar.start - start) * scale + 4} y={top + bar.lane * LANE_PX + 14}>
                        {bar.trial.number}
                      </text>
                    )}
                  </g>
                ))}
              </g>
            );
          })}
        </svg>
      )}
      <p className="jp-dtf-device-legend jp-dtf-faint">
        {(['complete', 'running', 'pruned', 'stopped', 'failed'] as const).map(state => (
          <span key={state}>
            <span className="jp-dtf-device-key" data-state={state} aria-hidden="true" />
            {trialStateText(state, trans)}
          </span>
        ))}
      </p>
    </div>
  );
}
