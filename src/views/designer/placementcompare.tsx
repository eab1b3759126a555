import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { LayerPlace } from '../../api/schema';
import { deviceName } from '../../model/places';

const MOST_ROWS = 200;

/** Whether a layer ran elsewhere than planned. */
export function differs(place: LayerPlace): boolean {
  return place.planned.length !== place.actual.length || place.planned.some(device => !place.actual.includes(device));
}

/** Where each layer was to be and where it was in a run, as a table. */
export function Compare(props: {
  layers: readonly LayerPlace[];
  onShow: (layer: string) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { layers, onShow, trans } = props;
  const [text, setText] = React.useState('');
  const [only, setOnly] = React.useState(false);
  const found = layers.filter(place => (!only || differs(place)) && place.layer.includes(text.trim()));
  const wrong = layers.filter(differs).length;
  return (
    <section className="jp-dtf-compare" aria-label={trans.__('Planned and actual places')}>
      <div className="jp-dtf-toolbar">
        <span role="status">
          {wrong === 0
            ? trans._n('The layer ran where it was planned', 'All %1 layers ran where they were planned', layers.length)
            : trans._n('%1 layer ran elsewhere than planned', '%1 layers ran elsewhere than planned', wrong)}
        </span>
        <input
          className="jp-dtf-search"
          type="search"
          placeholder={trans.__('Layer')}
          aria-label={trans.__('Show layers whose name holds')}
          value={text}
          onChange={event => setText(event.target.value)}
        />
        <label>
          <input type="checkbox" checked={only} onChange={event => setOnly(event.target.checked)} />
          {trans.__('only where they differ')}
        </label>
      </div>
      <table className="jp-dtf-table">
        <thead>
          <tr>
            <th scope="col">{trans.__('Layer')}</th>
            <th scope="col">{trans.__('Planned')}</th>
            <th scope="col">{trans.__('Actual')}</th>
          </tr>
        </thead>
        <tbody>
          {found.slice(0, MOST_ROWS).map(place => (
            <tr key={place.layer} className={differs(place) ? 'jp-dtf-problem' : undefined}>
              <th scope="row">
                <button type="button" className="jp-dtf-link" onClick={() => onShow(place.layer)}>
                  {place.layer}
                </button>
              </th>
              <td>{place.planned.map(deviceName).join(', ')}</td>
              <td>
                {differs(place) ? '≠ ' : ''}
                {place.actual.length > 0 ? place.actual.map(deviceName).join(', ') : trans.__('nothing was seen')}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {found.length > MOST_ROWS && (
        <p className="jp-dtf-faint jp-dtf-none">{trans.__('%1 more match', found.length - MOST_ROWS)}</p>
      )}
    </section>
  );
}
