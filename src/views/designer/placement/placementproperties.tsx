import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Design, Layer } from '../../../api/schema';
import { formatBytes, formatNumber, formatValue } from '../../../model/format';
import { canSplit, DeviceChoice, deviceName, memoryOf, placesOf, timesOfLayers } from '../../../model/layerplacement';
import { SmallButton } from '../../controls';

const MOST_NAMES = 8;

/** Actions on the selection. */
export interface LayerActions {
  unplace: () => void;
  pin: (pinned: boolean) => void;
  split: (over: readonly string[]) => void;
  unsplit: () => void;
  /** Select everything on the paths between the two selected layers; null if that does not apply. */
  path: (() => void) | null;
  chooseDevice: () => void;
}

/** The selected layers: their kind, their requirements, their placement. */
export function Properties(props: {
  layers: readonly Layer[];
  design: Design;
  devices: readonly DeviceChoice[];
  editable: boolean;
  actions: LayerActions;
  trans: TranslationBundle;
}): React.ReactElement {
  const { layers, design, devices, editable, actions, trans } = props;
  if (layers.length === 0) {
    return (
      <aside className="jp-dtf-properties" aria-label={trans.__('Selection')}>
        <p className="jp-dtf-faint">
          {trans.__('Select layers by clicking, by Shift-clicking, or by Shift-dragging over them.')}
        </p>
        <p className="jp-dtf-faint">
          {trans.__('Drop them on a device above, or press D and choose one with the arrow keys.')}
        </p>
      </aside>
    );
  }
  const { placement, run } = design;
  const one = layers.length === 1 ? layers[0]! : null;
  const total = (of: (layer: Layer) => number) => layers.reduce((sum, layer) => sum + of(layer), 0);
  const kinds = [...new Set(layers.map(layer => layer.kind))];
  const places = [...new Set(layers.flatMap(layer => placesOf(placement, layer.id)))];
  const pinned = layers.filter(layer => placement.pinned.includes(layer.id)).length;
  const isSplit = layers.some(layer => placement.splits[layer.id] !== undefined);
  const { unit, times } = timesOfLayers(design, layers);
  const time = times.reduce((sum, value) => sum + value, 0);
  const rows: [string, string][] = [
    [trans.__('class'), shortened(kinds)],
    ...(one
      ? ([
          [trans.__('input shapes'), shapesText(one.input_shapes)],
          [trans.__('output shapes'), shapesText(one.output_shapes)],
          ...(one.calls > 1 ? [[trans.__('calls'), String(one.calls)]] : [])
        ] as [string, string][])
      : []),
    [trans.__('parameters'), formatNumber(total(layer => layer.parameters))],
    [trans.__('weights'), formatBytes(total(layer => layer.parameter_bytes))],
    [trans.__('gradients'), formatBytes(total(layer => layer.gradient_bytes))],
    [trans.__('optimizer'), formatBytes(total(layer => layer.slot_bytes))],
    [trans.__('activations'), formatBytes(total(layer => layer.activation_bytes * run.batch_size))],
    [trans.__('memory'), formatBytes(total(layer => memoryOf(layer, run.batch_size)))],
    [trans.__('FLOPs'), trans.__('%1 per example', formatNumber(total(layer => layer.flops)))],
    ...(unit === 'seconds' ? ([[trans.__('time'), formatValue(time, 'seconds')]] as [string, string][]) : []),
    [trans.__('placed on'), places.length > 0 ? shortened(places.map(deviceName)) : trans.__('no device yet')]
  ];
  return (
    <aside className="jp-dtf-properties" aria-label={trans.__('Selection')}>
      <h3>{one ? one.id : trans._n('%1 layer', '%1 layers', layers.length)}</h3>
      <dl>
        {rows.map(([name, value]) => (
          <React.Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </React.Fragment>
        ))}
      </dl>
      <div className="jp-dtf-properties-actions">
        <SmallButton onClick={actions.chooseDevice} disabled={!editable || devices.length === 0}>
          {trans.__('Put on… (D)')}
        </SmallButton>
        <SmallButton onClick={actions.unplace} disabled={!editable || places.length === 0}>
          {trans.__('Unassign')}
        </SmallButton>
        <SmallButton
          onClick={() => actions.pin(pinned < layers.length)}
          disabled={!editable || places.length === 0}
          hint={trans.__('Pinned layers stay where they are when the others are placed automatically')}
        >
          {pinned < layers.length ? trans.__('Pin') : trans.__('Unpin')}
        </SmallButton>
        {actions.path && <SmallButton onClick={actions.path}>{trans.__('Select the path between')}</SmallButton>}
      </div>
      {layers.every(canSplit) && (
        <Split
          key={layers.map(layer => layer.id).join(' ')}
          devices={devices}
          initial={one ? placesOf(placement, one.id) : []}
          isSplit={isSplit}
          editable={editable}
          actions={actions}
          trans={trans}
        />
      )}
    </aside>
  );
}

/** Split a layer's weights by columns across the ticked devices. */
function Split(props: {
  devices: readonly DeviceChoice[];
  initial: readonly string[];
  isSplit: boolean;
  editable: boolean;
  actions: LayerActions;
  trans: TranslationBundle;
}): React.ReactElement {
  const { devices, initial, isSplit, editable, actions, trans } = props;
  const [over, setOver] = React.useState<readonly string[]>(initial);
  const [shown, setShown] = React.useState(initial);
  if (shown.join(' ') !== initial.join(' ')) {
    setShown(initial); // the layer was placed elsewhere
    setOver(initial);
  }
  return (
    <fieldset className="jp-dtf-split" disabled={!editable}>
      <legend>{trans.__('Split its columns over')}</legend>
      {devices.map(({ device, name }) => (
        <label key={device}>
          <input
            type="checkbox"
            checked={over.includes(device)}
            onChange={event =>
              setOver(
                devices
                  .map(choice => choice.device)
                  .filter(other => (other === device ? event.target.checked : over.includes(other)))
              )
            }
          />
          {name}
        </label>
      ))}
      <div className="jp-dtf-properties-actions">
        <SmallButton onClick={() => actions.split(over)} disabled={!editable || over.length < 2}>
          {trans.__('Split')}
        </SmallButton>
        {isSplit && <SmallButton onClick={actions.unsplit}>{trans.__('Undo split')}</SmallButton>}
      </div>
    </fieldset>
  );
}

function shapesText(shapes: readonly (readonly number[])[]): string {
  return shapes.map(shape => `(${['…', ...shape.slice(1)].join(', ')})`).join(' ');
}

function shortened(names: readonly string[]): string {
  return names.length <= MOST_NAMES ? names.join(', ') : `${names.slice(0, MOST_NAMES).join(', ')} … (${names.length})`;
}
