import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { DeviceLoad } from '../../../api/schema';
import { type DeviceRange, foldedDevices } from '../../../model/devicegroups';
import { formatBytes, formatBytesOf, formatPercent } from '../../../model/format';
import type { DeviceChoice } from '../../../model/layerplacement';
import { Bar } from '../../controls';

export interface DeviceStripProps {
  devices: readonly DeviceChoice[];
  loads: ReadonlyMap<string, DeviceLoad>;
  /** The number of layers on each device in the drawing. */
  counts: ReadonlyMap<string, number>;
  colours: ReadonlyMap<string, string>;
  /** Whether a device is being chosen for the selection with the keyboard. */
  choosing: boolean;
  /** The number of selected layers. */
  selected: number;
  /** Place the selection on a device; without a selection, select the layers placed there. */
  onChoose: (device: string) => void;
  onLeave: () => void;
  trans: TranslationBundle;
}

/** A card of the strip: a device, or a range of them. */
type Item = { choice: DeviceChoice } | { range: DeviceRange };

/** The devices as drop targets for layers, with the load of each. Many devices are folded into ranges. */
export function DeviceStrip(props: DeviceStripProps): React.ReactElement {
  const { devices, loads, counts, choosing, onLeave, trans } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const [current, setCurrent] = React.useState(0);
  const [open, setOpen] = React.useState<ReadonlySet<string>>(new Set());
  const folded = React.useMemo(() => foldedDevices(devices, loads, counts), [devices, loads, counts]);
  const items: Item[] = [
    ...folded.single.map(choice => ({ choice })),
    ...folded.ranges.flatMap(range => [
      { range },
      ...(open.has(range.key) ? range.choices.map(choice => ({ choice })) : [])
    ])
  ];
  const at = Math.min(current, Math.max(0, items.length - 1));
  const take = (item: Item) => {
    if ('choice' in item) {
      props.onChoose(item.choice.device);
    } else {
      const { key } = item.range;
      setOpen(new Set(open.has(key) ? [...open].filter(other => other !== key) : [...open, key]));
      setCurrent(items.indexOf(item));
    }
  };
  React.useEffect(() => {
    if (choosing) {
      host.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
    }
  }, [choosing]);
  const onKeyDown = (event: React.KeyboardEvent<HTMLDivElement>) => {
    if (event.key === 'Escape') {
      event.preventDefault();
      event.stopPropagation();
      onLeave();
      return;
    }
    const to = {
      ArrowRight: at + 1,
      ArrowDown: at + 1,
      ArrowLeft: at - 1,
      ArrowUp: at - 1,
      Home: 0,
      End: items.length - 1
    }[event.key];
    const next = to === undefined ? undefined : items[to];
    if (next) {
      event.preventDefault();
      setCurrent(to!);
      (event.currentTarget.children[to!] as HTMLElement).focus();
    } else if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      take(items[at]!);
    }
  };
  return (
    <div
      ref={host}
      className="jp-dtf-devices"
      role="listbox"
      aria-orientation="horizontal"
      aria-label={choosing ? trans.__('Choose a device for the selection') : trans.__('Devices')}
      onKeyDown={onKeyDown}
    >
      {items.map((item, index) =>
        'choice' in item ? (
          <Card key={item.choice.device} choice={item.choice} strip={props} focusable={index === at} />
        ) : (
          <RangeCard
            key={`range ${item.range.key}`}
            range={item.range}
            open={open.has(item.range.key)}
            focusable={index === at}
            onToggle={() => take(item)}
            trans={trans}
          />
        )
      )}
    </div>
  );
}

function Card(props: { choice: DeviceChoice; strip: DeviceStripProps; focusable: boolean }): React.ReactElement {
  const { choice, strip, focusable } = props;
  const { loads, counts, colours, selected, trans } = strip;
  const load = loads.get(choice.device);
  const count = counts.get(choice.device) ?? 0;
  const layers = trans._n('%1 layer', '%1 layers', count);
  const memory = load && (load.memory_limit_bytes > 0 ? load.memory_bytes / load.memory_limit_bytes : null);
  return (
    <div
      className={`jp-dtf-device${load?.problem ? ' jp-mod-problem' : ''}`}
      style={{ '--jp-dtf-task': colours.get(choice.task) } as React.CSSProperties}
      role="option"
      aria-selected={false}
      aria-label={[choice.name, layers, load?.problem ?? '', load?.unused ?? ''].filter(part => part !== '').join(', ')}
      tabIndex={focusable ? 0 : -1}
      data-device={choice.device}
      title={
        selected > 0
          ? trans._n('Put the selected layer on %2', 'Put the %1 selected layers on %2', selected, choice.device)
          : trans.__('Select the layers on %1', choice.device)
      }
      onClick={() => strip.onChoose(choice.device)}
    >
      <div className="jp-dtf-device-head">
        <b>{choice.name}</b>
        <span className="jp-dtf-faint">{layers}</span>
      </div>
      {load && (
        <>
          <div className="jp-dtf-device-line">
            <Bar fraction={memory ?? null} label={trans.__('Memory of %1', choice.name)} />
            <span className="jp-dtf-number">
              {load.memory_limit_bytes > 0
                ? formatBytesOf(load.memory_bytes, load.memory_limit_bytes)
                : formatBytes(load.memory_bytes)}
            </span>
          </div>
          <div className="jp-dtf-device-line jp-dtf-faint">
            <span title={trans.__('Share of the work of a step')}>{formatPercent(load.share)}</span>
            <span title={trans.__('Sent and received in a step')}>
              ↑ {formatBytes(load.sent_bytes)} ↓ {formatBytes(load.received_bytes)}
            </span>
          </div>
          {load.problem !== '' && <p className="jp-dtf-problem">{load.problem}</p>}
          {load.unused !== '' && <p className="jp-dtf-faint">{load.unused}</p>}
        </>
      )}
    </div>
  );
}

/** A range of devices as one card, which can be unfolded. */
function RangeCard(props: {
  range: DeviceRange;
  open: boolean;
  focusable: boolean;
  onToggle: () => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { range, open, focusable, onToggle, trans } = props;
  const { name, choices, layers, memory, fraction, problems } = range;
  const devices = trans._n('%1 device', '%1 devices', choices.length);
  const words = trans._n('%1 layer', '%1 layers', layers);
  const trouble = problems > 0 ? trans._n('%1 with a problem', '%1 with problems', problems) : '';
  const hint = open ? trans.__('Collapse these devices') : trans.__('Expand these devices');
  return (
    <div
      className={`jp-dtf-device jp-mod-range${problems > 0 ? ' jp-mod-problem' : ''}`}
      role="option"
      aria-selected={false}
      aria-label={[name, devices, words, trouble, hint].filter(part => part !== '').join(', ')}
      tabIndex={focusable ? 0 : -1}
      title={hint}
      data-open={open || undefined}
      onClick={onToggle}
    >
      <div className="jp-dtf-device-head">
        <b>
          {open ? '▾' : '▸'} {name}
        </b>
        <span className="jp-dtf-faint">{devices}</span>
      </div>
      {memory && (
        <div className="jp-dtf-device-line">
          <Bar fraction={fraction} label={trans.__('Memory of %1, on average', name)} />
          <span className="jp-dtf-number" title={trans.__('The mean, and the minimum and maximum of a single device')}>
            {formatBytes(memory.mean)} ({formatBytes(memory.low.value)} – {formatBytes(memory.high.value)})
          </span>
        </div>
      )}
      <div className="jp-dtf-device-line jp-dtf-faint">
        <span>{words}</span>
      </div>
      {trouble !== '' && <p className="jp-dtf-problem">{trouble}</p>}
    </div>
  );
}
