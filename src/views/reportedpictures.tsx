import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { MediaSeries, Picture } from '../api/schema';
import { formatNumber } from '../model/format';
import { useRead } from './hooks';
import { StepChoice, useChosenStep } from './stepchoice';

// Number of images in the strip, including the chosen one.
const STRIP = 6;

/** The images with one name: the image of the chosen step, and the images of preceding steps. */
export function Pictures(props: {
  series: MediaSeries;
  read: (step: number) => Promise<Picture>;
  trans: TranslationBundle;
}): React.ReactElement {
  const { series, read, trans } = props;
  const { steps, name } = series;
  const [index, choose] = useChosenStep(steps);
  const strip = steps.slice(Math.max(0, index - STRIP + 1), index + 1);
  return (
    <section className="jp-dtf-pictures" aria-label={name}>
      <h3 title={name}>{name}</h3>
      <StepChoice steps={steps} index={index} choose={choose} trans={trans} />
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
  const picture = useRead(read, step) ?? '';
  return (
    <figure>
      {typeof picture === 'string' ? (
        <p className="jp-dtf-faint">{picture}</p>
      ) : (
        <img
          src={`data:image/png;base64,${picture.png}`}
          width={picture.width}
          height={picture.height}
          alt={picture.caption || trans.__('%1 at step %2', name, formatNumber(step))}
        />
      )}
      <figcaption className="jp-dtf-faint jp-dtf-number">
        {formatNumber(step)}
        {typeof picture !== 'string' && picture.caption !== '' && ` · ${picture.caption}`}
      </figcaption>
    </figure>
  );
}
