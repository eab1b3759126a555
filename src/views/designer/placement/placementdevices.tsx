import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { DeviceLoad } from '../../../api/schema';
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

/** The devices, as drop targets for layers, with what each will hold. */
export function DeviceStrip(props: DeviceStripProps): React.ReactElement {
  const { devices, choosing, onLeave, trans } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const [current, setCurrent] = React.useState(0);
  const at = Math.min(current, Math.max(0, devices.length - 1));
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
      End: devices.length - 1
    }[event.key];
    const next = to === undefined ? undefined : devices[to];
    if (next) {
      event.preventDefault();
      setCurrent(to!);
      (event.currentTarget.children[to!] as HTMLElement).focus();
    } else if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      props.onChoose(devices[at]!.device);
    }
  };
  return (
    <div
      ref={host}
      className="jp-dtf-devices"
      role="listbox"
      aria-orientation="horizontal"
      aria-label={choosing ? trans.__('Choose a device for what is selected') : trans.__('Devices')}
      onKeyDown={onKeyDown}
    >
      {devices.map((choice, index) => (
        <Card key={choice.device} choice={choice} strip={props} focusable={index === at} />
      ))}
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
