import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ComparedLayer, Comparison } from '../../../model/comparison';
import { deviceName } from '../../../model/layerplacement';

const MOST_ROWS = 200;

/** A table of each layer's planned place, its actual place in a run, and its place in the drawing. */
export function Compare(props: {
  compared: Comparison;
  onShow: (layer: string) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { compared, onShow, trans } = props;
  const [text, setText] = React.useState('');
  const [only, setOnly] = React.useState(false);
  const found = compared.layers.filter(place => (!only || differs(place)) && place.layer.includes(text.trim()));
  const showsDrawn = compared.layers.some(isDrawnOtherwise);
  return (
    <section className="jp-dtf-compare" aria-label={trans.__('Planned and actual places')}>
      <div className="jp-dtf-toolbar">
        <div role="status">
          {verdicts(compared, trans).map(verdict => (
            <div key={verdict}>{verdict}</div>
          ))}
        </div>
        <input
          className="jp-dtf-search"
          type="search"
          placeholder={trans.__('Layer')}
          aria-label={trans.__('Show layers whose name contains')}
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
            {showsDrawn && <th scope="col">{trans.__('Drawn')}</th>}
          </tr>
        </thead>
        <tbody>
          {found.slice(0, MOST_ROWS).map(place => (
            <tr key={place.layer} className={place.elsewhere ? 'jp-dtf-problem' : undefined}>
              <th scope="row">
                <button type="button" className="jp-dtf-link" onClick={() => onShow(place.layer)}>
                  {place.layer}
                </button>
              </th>
              <td>{place.planned.map(deviceName).join(', ')}</td>
              <td>
                {place.elsewhere ? '≠ ' : ''}
                {place.actual.length > 0 ? place.actual.map(deviceName).join(', ') : trans.__('not observed')}
              </td>
              {showsDrawn && <td>{isDrawnOtherwise(place) && `≠ ${drawnText(place, trans)}`}</td>}
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

/** A summary of the comparison. If the drawing is of another model, a run that went as planned does not confirm it. */
function verdicts(compared: Comparison, trans: TranslationBundle): string[] {
  const { layers, elsewhere, otherwise, common, drawn, sameModel } = compared;
  const ran =
    elsewhere === 0
      ? trans._n('The layer ran where it was planned', 'All %1 layers ran where they were planned', layers.length)
      : trans._n('%1 layer ran elsewhere than planned', '%1 layers ran elsewhere than planned', elsewhere);
  const other = trans.__(
    'This run trained another model: %1 of its %2 layers are in the drawing, which has %3',
    common,
    layers.length,
    drawn
  );
  const planned = trans._n(
    'The plan of this run differs from the drawing in %1 layer',
    'The plan of this run differs from the drawing in %1 layers',
    otherwise
  );
  return [
    ...(sameModel ? [] : [other]),
    ...(sameModel || elsewhere > 0 ? [ran] : []),
    ...(otherwise > 0 ? [planned] : [])
  ];
}

function differs(place: ComparedLayer): boolean {
  return place.elsewhere || isDrawnOtherwise(place);
}

function isDrawnOtherwise({ drawn, otherwise }: ComparedLayer): boolean {
  return drawn === null || otherwise;
}

function drawnText({ drawn }: ComparedLayer, trans: TranslationBundle): string {
  if (drawn === null) {
    return trans.__('not in the drawing');
  }
  return drawn.length > 0 ? drawn.map(deviceName).join(', ') : trans.__('not placed');
}
