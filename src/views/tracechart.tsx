import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { TracedOp, Transfer } from '../api/schema';
import { formatBytes, formatTicks, formatValue } from '../model/format';
import { moved, Span, ticksOf, TimelineRow, zoomed } from '../model/trace';
import { SmallButton } from './controls';
import { useWidth } from './hooks';
import { followPointer } from './pointerdrag';

const LABEL_PX = 130;
const RIGHT_PX = 12;
const LANE_PX = 16;
const GAP_PX = 12;
const TRANSFER_GAP_PX = 30;
const AXIS_PX = 22;
const TOP_PX = 6;
const CHARACTER_PX = 6.2;
const BYTES_LABEL_PX = 48;
const ZOOM = 1.5;
// With more rows than this the timeline scrolls, and renders only the rows near the visible ones.
const MOST_ROWS = 24;
const LONG_PX = 640;
const NEAR_PX = 300;

interface Placed {
  row: TimelineRow;
  top: number;
  height: number;
}

/**
 * The timeline itself: one row for each device, with transfers drawn between them. Controlled by Ctrl and the wheel,
 * dragging, or keys.
 */
export function TimelineChart(props: {
  rows: readonly TimelineRow[];
  transfers: readonly Transfer[];
  whole: Span;
  colours: Map<string, string>;
  trans: TranslationBundle;
}): React.ReactElement {
  const { rows, transfers, whole, colours, trans } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const [span, setSpan] = React.useState(whole);
  const width = useWidth(host);
  const plot = Math.max(50, width - LABEL_PX - RIGHT_PX);
  const scale = plot / (span.end - span.start);
  const at = (time: number) => LABEL_PX + (time - span.start) * scale;
  const { placed, bottom } = React.useMemo(() => place(rows, transfers.length > 0), [rows, transfers]);
  const long = rows.length > MOST_ROWS;
  const [view, setView] = React.useState<readonly [number, number]>([0, LONG_PX]);
  const near = React.useMemo(
    () =>
      long ? placed.filter(({ top, height }) => top + height > view[0] - NEAR_PX && top < view[1] + NEAR_PX) : placed,
    [placed, view, long]
  );
  const travelled = React.useMemo(() => {
    const devices = new Set(near.map(({ row }) => row.device));
    return long ? transfers.filter(one => devices.has(one.source) && devices.has(one.target)) : transfers;
  }, [near, transfers, long]);

  const zoom = (factor: number) => setSpan(zoomed(span, factor, (span.start + span.end) / 2, whole));
  const move = (part: number) => setSpan(moved(span, part * (span.end - span.start), whole));
  const onKeyDown = (event: React.KeyboardEvent) => {
    const act = {
      '+': () => zoom(ZOOM),
      '=': () => zoom(ZOOM),
      '-': () => zoom(1 / ZOOM),
      ArrowLeft: () => move(-0.1),
      ArrowRight: () => move(0.1),
      Home: () => setSpan(whole)
    }[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      act();
    }
  };
  useWheelZoom(host, (factor, x) => {
    setSpan(current => {
      const time = current.start + ((x - LABEL_PX) / plot) * (current.end - current.start);
      return zoomed(current, factor, Math.min(Math.max(time, current.start), current.end), whole);
    });
  });
  const onPointerDown = (event: React.PointerEvent<SVGSVGElement>) => {
    const from = event.clientX;
    followPointer(event.pointerId, event.currentTarget, {
      move: ({ clientX }) => setSpan(moved(span, (from - clientX) / scale, whole))
    });
  };
  const ticks = ticksOf(span, Math.max(2, plot / 110));
  const labels = formatTicks(
    ticks.map(tick => tick / 1e6),
    'seconds'
  );
  return (
    <div className="jp-dtf-timeline-chart">
      <div className="jp-dtf-timeline-tools">
        <SmallButton label={trans.__('Zoom in')} onClick={() => zoom(ZOOM)}>
          +
        </SmallButton>
        <SmallButton label={trans.__('Zoom out')} onClick={() => zoom(1 / ZOOM)}>
          −
        </SmallButton>
        <SmallButton label={trans.__('Show the whole timeline')} onClick={() => setSpan(whole)}>
          {trans.__('All')}
        </SmallButton>
        <span className="jp-dtf-faint">
          {trans.__('Zoom: Ctrl and wheel, + or −. Move: drag, ← or →. Everything: Home')}
        </span>
      </div>
      <div
        ref={host}
        className="jp-dtf-timeline-host"
        role="group"
        tabIndex={0}
        aria-label={trans.__(
          'Timeline of %1 devices, from %2 to %3',
          rows.length,
          formatValue(span.start / 1e6, 'seconds'),
          formatValue(span.end / 1e6, 'seconds')
        )}
        onKeyDown={onKeyDown}
        style={long ? { maxHeight: LONG_PX, overflowY: 'auto' } : undefined}
        onScroll={event => {
          const { scrollTop, clientHeight } = event.currentTarget;
          setView([scrollTop, scrollTop + clientHeight]);
        }}
      >
        <svg width={width} height={bottom + AXIS_PX} aria-hidden="true" onPointerDown={onPointerDown}>
          {ticks.map((tick, index) => (
            <g key={tick} className="jp-dtf-timeline-tick">
              <line x1={at(tick)} x2={at(tick)} y1={0} y2={bottom} />
              <text x={at(tick)} y={bottom + 14} textAnchor="middle">
                {labels[index]}
              </text>
            </g>
          ))}
          {near.map(each => (
            <Row
              key={each.row.device}
              placed={each}
              span={span}
              scale={scale}
              width={plot}
              colour={colours.get(each.row.task) ?? '#999999'}
            />
          ))}
          <Arrows transfers={travelled} placed={near} span={span} at={at} right={width} />
        </svg>
      </div>
    </div>
  );
}

function place(rows: readonly TimelineRow[], withTransfers: boolean): { placed: Placed[]; bottom: number } {
  let top = TOP_PX;
  const placed = rows.map(row => {
    const height = row.laneCount * LANE_PX;
    const here = { row, top, height };
    top += height + (withTransfers ? TRANSFER_GAP_PX : GAP_PX);
    return here;
  });
  return { placed, bottom: top };
}

/** A device with its visible operations. Operations that are too narrow to be seen are thinned to one per pixel. */
function Row(props: { placed: Placed; span: Span; scale: number; width: number; colour: string }): React.ReactElement {
  const { placed, span, scale, width, colour } = props;
  const { row, top, height } = props.placed;
  const filled = new Map<number, number>();
  const bars: React.ReactElement[] = [];
  row.ops.forEach((op, index) => {
    const lane = row.lanes[index]!;
    const left = Math.max(0, (op.start_us - span.start) * scale);
    const right = Math.min(width, (op.start_us + op.duration_us - span.start) * scale);
    const pixel = Math.floor(left);
    if (right < 0 || left > width || (right - left < 1 && filled.get(lane) === pixel)) {
      return;
    }
    filled.set(lane, pixel);
    const y = top + lane * LANE_PX;
    bars.push(
      <Bar key={index} op={op} x={LABEL_PX + left} y={y} width={Math.max(right - left, 0.7)} colour={colour} />
    );
  });
  const middle = placed.top + placed.height / 2;
  return (
    <g>
      <rect className="jp-dtf-timeline-band" x={LABEL_PX} y={top} width={width} height={height} />
      <rect x={0} y={middle - 5} width={10} height={10} rx={2} fill={colour} />
      <text className="jp-dtf-timeline-name" x={16} y={middle + 4}>
        {row.name}
        <title>{row.device}</title>
      </text>
      {bars}
    </g>
  );
}

function Bar(props: { op: TracedOp; x: number; y: number; width: number; colour: string }): React.ReactElement {
  const { op, x, y, width, colour } = props;
  const name = op.op_type || op.op;
  return (
    <g className="jp-dtf-timeline-op">
      <rect x={x} y={y + 1} width={width} height={LANE_PX - 2} fill={colour}>
        <title>{`${op.op} (${op.op_type}), step ${op.step}, ${formatValue(op.duration_us / 1e6, 'seconds')}`}</title>
      </rect>
      {width > CHARACTER_PX * name.length + 6 && (
        <text x={x + 3} y={y + 12} fill={inkOn(colour)}>
          {name}
        </text>
      )}
    </g>
  );
}

/** Transfers from the sender's row to the receiver's, labeled with their bytes if there is enough space. */
function Arrows(props: {
  transfers: readonly Transfer[];
  placed: readonly Placed[];
  span: Span;
  at: (time: number) => number;
  right: number;
}): React.ReactElement {
  const { transfers, placed, span, at, right } = props;
  const places = new Map(placed.map(each => [each.row.device, each]));
  const taken: [number, number][] = [];
  const drawn = [...transfers]
    .sort((a, b) => b.bytes - a.bytes)
    .filter(one => one.start_us >= span.start && one.start_us + one.duration_us <= span.end)
    .map((one, index) => {
      const [source, target] = [places.get(one.source)!, places.get(one.target)!];
      const down = target.top > source.top;
      const [x1, x2] = [at(one.start_us), at(one.start_us + one.duration_us)];
      const [y1, y2] = down ? [source.top + source.height, target.top] : [source.top, target.top + target.height];
      const [x, y] = [Math.min((x1 + x2) / 2 + 5, right - BYTES_LABEL_PX), (y1 + y2) / 2 + 4];
      const free = !taken.some(([tx, ty]) => Math.abs(y - ty) < 10 && Math.abs(x - tx) < BYTES_LABEL_PX);
      if (free) {
        taken.push([x, y]);
      }
      const size = formatBytes(one.bytes);
      const told = `${one.tensor}, ${size}, step ${one.step}, ${formatValue(one.duration_us / 1e6, 'seconds')}`;
      return (
        <g key={index} className="jp-dtf-timeline-transfer">
          <title>{told}</title>
          <line x1={x1} y1={y1} x2={x2} y2={y2} />
          <path d={`M${x2} ${y2}l-3.5 ${down ? -6 : 6}h7z`} />
          {free && (
            <text x={x} y={y}>
              {size}
            </text>
          )}
        </g>
      );
    });
  return <>{drawn}</>;
}

/** Black or white, whichever has the better contrast with a color (relative luminance, WCAG 2.2). */
function inkOn(colour: string): string {
  const linear = [1, 3, 5].map(start => {
    const part = parseInt(colour.slice(start, start + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * linear[0]! + 0.7152 * linear[1]! + 0.0722 * linear[2]! > 0.179 ? '#000000' : '#ffffff';
}

/** Call `onZoom(factor, x)` when the wheel turns while Ctrl is held; `x` in px from the element's left edge. */
function useWheelZoom(host: React.RefObject<HTMLElement>, onZoom: (factor: number, x: number) => void): void {
  const latest = React.useRef(onZoom);
  React.useEffect(() => {
    latest.current = onZoom;
  });
  React.useEffect(() => {
    const element = host.current;
    const onWheel = (event: WheelEvent) => {
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault(); // prevents the browser's own zoom, which React's passive listener cannot do
        latest.current(Math.exp(-event.deltaY / 300), event.clientX - element!.getBoundingClientRect().left);
      }
    };
    element?.addEventListener('wheel', onWheel, { passive: false });
    return () => element?.removeEventListener('wheel', onWheel);
  }, [host]);
}
