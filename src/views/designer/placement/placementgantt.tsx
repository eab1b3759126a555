import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Slot } from '../../../api/schema';
import { busyRows } from '../../../model/devicegroups';
import { formatPercent, formatTicks, formatValue } from '../../../model/format';
import { deviceName } from '../../../model/layerplacement';
import { MANY } from '../../../model/spread';
import { taskOf, ticksOf } from '../../../model/trace';
import { useWidth } from '../../hooks';

const ROW_PX = 16;
const AXIS_PX = 16;
const LABEL_PX = 96;
const WIDTH = 1000;
/** Space for an axis label with its margin, and the maximum number of ticks. */
const TICK_PX = 90;
const LAST_PX = 50;
const MOST_TICKS = 8;
const TITLE_PX = 20;
const MOST_PX = 220;
/** The number of equal parts of a step whose utilization is drawn if there are many devices. */
const COLUMNS = 120;

/**
 * A step as a Gantt chart: one row for each device and one box for each microbatch. If there are many devices, a row
 * combines several of them and shows when they are busy.
 */
export interface GanttPart {
  title: string;
  slots: readonly Slot[];
}

/** The height of the chart for this many devices, px. */
export function ganttHeight(devices: number): number {
  return Math.min(MOST_PX, TITLE_PX + Math.min(devices, MANY) * ROW_PX + AXIS_PX);
}

/** A step over a time axis of its own. */
export function Gantt(props: {
  part: GanttPart;
  colours: ReadonlyMap<string, string>;
  trans: TranslationBundle;
}): React.ReactElement | null {
  const { part, colours, trans } = props;
  const end = endOf(part.slots);
  return end <= 0 ? null : (
    <div className="jp-dtf-gantt" style={{ maxHeight: MOST_PX }}>
      {new Set(part.slots.map(slot => slot.device)).size > MANY ? (
        <BusyRows part={part} end={end} trans={trans} />
      ) : (
        <Rows part={part} end={end} colours={colours} trans={trans} />
      )}
      <Axis end={end} />
    </div>
  );
}

/** A time axis with as many labels as fit, starting at the beginning of the step. */
function Axis({ end }: { end: number }): React.ReactElement {
  const host = React.useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const ticks = ticksOf({ start: 0, end }, Math.min(MOST_TICKS, Math.max(1, Math.floor(width / TICK_PX))));
  const labels = formatTicks(ticks, 'seconds');
  return (
    <div ref={host} className="jp-dtf-gantt-axis" style={{ marginLeft: LABEL_PX, height: AXIS_PX }} aria-hidden="true">
      {ticks.map(
        (tick, index) =>
          (end - tick) * width > LAST_PX * end && ( // a label at the edge would be cut off
            <span key={tick} style={{ left: `${(100 * tick) / end}%` }}>
              {labels[index]}
            </span>
          )
      )}
    </div>
  );
}

function Rows(props: {
  part: GanttPart;
  end: number;
  colours: ReadonlyMap<string, string>;
  trans: TranslationBundle;
}): React.ReactElement {
  const { part, end, colours, trans } = props;
  const devices = [...new Set(part.slots.map(slot => slot.device))].sort();
  const scale = WIDTH / end;
  return (
    <div className="jp-dtf-gantt-part">
      <div className="jp-dtf-gantt-names" style={{ width: LABEL_PX }}>
        <b>{part.title}</b>
        {devices.map(device => (
          <span key={device} style={{ height: ROW_PX }} title={device}>
            {deviceName(device)}
          </span>
        ))}
      </div>
      <svg
        viewBox={`0 0 ${WIDTH} ${ROW_PX * devices.length}`}
        preserveAspectRatio="none"
        style={{ height: ROW_PX * devices.length }}
        role="img"
        aria-label={trans.__('%1 step of %2', part.title, formatValue(endOf(part.slots), 'seconds'))}
      >
        {part.slots.map((slot, index) => (
          <rect
            key={index}
            className="jp-dtf-gantt-slot"
            data-phase={slot.phase}
            x={slot.start_s * scale}
            y={devices.indexOf(slot.device) * ROW_PX + 1}
            width={Math.max(slot.duration_s * scale, 0.5)}
            height={ROW_PX - 2}
            fill={colours.get(taskOf(slot.device)) ?? '#999999'}
          >
            <title>
              {trans.__(
                'microbatch %1, %2, %3',
                slot.microbatch + 1,
                phaseText(slot.phase, trans),
                formatValue(slot.duration_s, 'seconds')
              )}
            </title>
          </rect>
        ))}
      </svg>
    </div>
  );
}

/** One row for several consecutive devices: the more of them are busy, the darker. */
function BusyRows(props: { part: GanttPart; end: number; trans: TranslationBundle }): React.ReactElement {
  const { part, end, trans } = props;
  const rows = React.useMemo(() => {
    const devices = [...new Set(part.slots.map(slot => slot.device))].sort((a, b) =>
      a.localeCompare(b, 'en', { numeric: true })
    );
    return busyRows(part.slots, devices, end, { rows: MANY, columns: COLUMNS });
  }, [part.slots, end]);
  const cell = WIDTH / COLUMNS;
  return (
    <div className="jp-dtf-gantt-part">
      <div className="jp-dtf-gantt-names" style={{ width: LABEL_PX }}>
        <b>{part.title}</b>
        {rows.map(({ name }) => (
          <span key={name} style={{ height: ROW_PX }} title={name}>
            {name}
          </span>
        ))}
      </div>
      <svg
        viewBox={`0 0 ${WIDTH} ${ROW_PX * rows.length}`}
        preserveAspectRatio="none"
        style={{ height: ROW_PX * rows.length }}
        role="img"
        aria-label={trans.__('%1 step of %2', part.title, formatValue(end, 'seconds'))}
      >
        {rows.map(({ name, devices, busy }, row) => (
          <g key={name}>
            {[...busy].map(
              (share, column) =>
                share > 0 && (
                  <rect
                    key={column}
                    className="jp-dtf-gantt-busy"
                    x={column * cell}
                    y={row * ROW_PX + 1}
                    width={cell}
                    height={ROW_PX - 2}
                    fillOpacity={Math.min(1, share)}
                  />
                )
            )}
            <title>
              {trans.__(
                '%1: %2 devices, busy %3 of the step',
                name,
                devices,
                formatPercent(busy.reduce((sum, share) => sum + share, 0) / COLUMNS)
              )}
            </title>
          </g>
        ))}
      </svg>
    </div>
  );
}

function endOf(slots: readonly Slot[]): number {
  return slots.reduce((latest, slot) => Math.max(latest, slot.start_s + slot.duration_s), 0);
}

function phaseText(phase: string, trans: TranslationBundle): string {
  switch (phase) {
    case 'forward':
      return trans.__('forward');
    case 'backward':
      return trans.__('backward');
    case 'update':
      return trans.__('update');
    default:
      return phase;
  }
}
