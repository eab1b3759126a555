import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { MediaSeries, Picture } from '../api/schema';
import { formatNumber } from '../model/format';

// So many before the chosen one are beside it.
const STRIP = 6;

/** The pictures of one name: that of a step, and those before it. */
export function Pictures(props: {
  series: MediaSeries;
  read: (step: number) => Promise<Picture>;
  trans: TranslationBundle;
}): React.ReactElement {
  const { series, read, trans } = props;
  const { steps, name } = series;
  // Until the person chooses it is the newest.
  const [chosen, setChosen] = React.useState<number | null>(null);
  const last = steps.length - 1;
  const index = chosen === null ? last : Math.min(chosen, last);
  const strip = steps.slice(Math.max(0, index - STRIP + 1), index + 1);
  return (
    <section className="jp-dtf-pictures" aria-label={name}>
      <h3 title={name}>{name}</h3>
      <label className="jp-dtf-pictures-step">
        {trans.__('step')}
        <input
          type="range"
          min={0}
          max={last}
          step={1}
          value={index}
          disabled={last === 0}
          aria-valuetext={formatNumber(steps[index]!)}
          onChange={event => {
            const to = Number(event.target.value);
            setChosen(to === last ? null : to);
          }}
        />
        <span className="jp-dtf-number">{formatNumber(steps[index]!)}</span>
      </label>
      <div className="jp-dtf-pictures-strip">
        {strip.map(step => (
          <Shown key={step} name={name} step={step} read={read} trans={trans} />
        ))}
      </div>
    </section>
  );
}

function Shown(props: {
  name: string;
  step: number;
  read: (step: number) => Promise<Picture>;
  trans: TranslationBundle;
}): React.ReactElement {
  const { name, step, read, trans } = props;
  const [picture, setPicture] = React.useState<Picture | string>('');
  React.useEffect(() => {
    let gone = false;
    read(step).then(
      found => !gone && setPicture(found),
      (error: unknown) => !gone && setPicture(error instanceof Error ? error.message : String(error))
    );
    return () => {
      gone = true;
    };
  }, [read, step]);
  return (
    <figure>
      {typeof picture === 'string' ? (
        <p className="jp-dtf-faint">{picture}</p>
      ) : (
        <img
          src={`data:image/png;base64,${picture.png}`}
          width={picture.width}
          height={picture.height}
          alt={picture.caption || trans.__('%1 of step %2', name, formatNumber(step))}
        />
      )}
      <figcaption className="jp-dtf-faint jp-dtf-number">
        {formatNumber(step)}
        {typeof picture !== 'string' && picture.caption !== '' && ` · ${picture.caption}`}
      </figcaption>
    </figure>
  );
}
