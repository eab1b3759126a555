import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { DeviceChoice } from '../../../model/layerplacement';
import { MANY, rangesOf } from '../../../model/spread';
import type { ColourBy } from '../graph/graphappearance';

/** The legend of the graph's colors. */
export function Legend(props: {
  colourBy: ColourBy;
  devices: readonly DeviceChoice[];
  colours: ReadonlyMap<string, string>;
  calibrated: boolean;
  trans: TranslationBundle;
}): React.ReactElement {
  const { colourBy, devices, colours, calibrated, trans } = props;
  if (colourBy === 'device') {
    return (
      <div className="jp-dtf-legend">
        {devices.length > MANY ? (
          <span>
            {trans.__('colors for %1, each shared by several tasks', rangesOf(devices.map(({ task }) => task)))}
          </span>
        ) : (
          devices.map(({ device, task, name }) => (
            <span key={device}>
              <span className="jp-dtf-swatch" style={{ background: colours.get(task) }} />
              {name}
            </span>
          ))
        )}
        <span>
          <span className="jp-dtf-swatch jp-mod-none" />
          {trans.__('no device yet')}
        </span>
        <span>
          <span className="jp-dtf-legend-cut" />
          {trans.__('sent between devices, for one microbatch')}
        </span>
      </div>
    );
  }
  const what =
    colourBy === 'memory'
      ? trans.__('memory in a step')
      : calibrated
        ? trans.__('measured time in a step')
        : trans.__('operations in a step');
  return (
    <div className="jp-dtf-legend">
      <span>{what}</span>
      <span>{trans.__('none')}</span>
      <span className="jp-dtf-legend-heat" />
      <span>{trans.__('largest value shown')}</span>
    </div>
  );
}
