import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { formatNumber } from '../model/format';

/** The index of the chosen step, and a function that chooses another. Until the user chooses, it is the newest. */
export function useChosenStep(steps: readonly number[]): [number, (index: number) => void] {
  const [chosen, setChosen] = React.useState<number | null>(null);
  const last = steps.length - 1;
  return [chosen === null ? last : Math.min(chosen, last), (index: number) => setChosen(index === last ? null : index)];
}

/** A slider over unevenly spaced steps. */
export function StepChoice(props: {
  steps: readonly number[];
  index: number;
  choose: (index: number) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { steps, index, choose, trans } = props;
  return (
    <label className="jp-dtf-pictures-step">
      {trans.__('step')}
      <input
        type="range"
        min={0}
        max={steps.length - 1}
        step={1}
        value={index}
        disabled={steps.length === 1}
        aria-valuetext={formatNumber(steps[index]!)}
        onChange={event => choose(Number(event.target.value))}
      />
      <span className="jp-dtf-number">{formatNumber(steps[index]!)}</span>
    </label>
  );
}
