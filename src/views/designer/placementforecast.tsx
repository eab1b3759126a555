import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Prediction, RunPlacement } from '../../api/schema';
import { formatPercent, formatValue } from '../../model/format';
import { Gantt, ganttHeight } from './placementgantt';

/** What a step will take, in words and as a picture; above what it took in the run that is laid over. */
export function Forecast(props: {
  prediction: Prediction | null;
  measured: RunPlacement | null;
  /** How many devices there are: room is kept for them, so that nothing jumps when the prediction comes. */
  devices: number;
  colours: ReadonlyMap<string, string>;
  /** What the step depends on, to be changed beside what it takes. */
  children?: React.ReactNode;
  trans: TranslationBundle;
}): React.ReactElement {
  const { prediction, measured, devices, colours, children, trans } = props;
  const parts = [
    { title: trans.__('predicted'), slots: prediction?.timeline ?? [] },
    { title: trans.__('measured'), slots: measured?.timeline ?? [] }
  ].filter(part => part.slots.length > 0);
  return (
    <footer className="jp-dtf-forecast" aria-label={trans.__('What a step takes')}>
      <p>
        {prediction
          ? words(prediction, measured, trans).join(' · ')
          : trans.__('A step can be predicted when layers are on devices and the numbers are right.')}
      </p>
      {children}
      <div style={{ minHeight: ganttHeight(devices) }}>
        <Gantt parts={parts} colours={colours} trans={trans} />
      </div>
    </footer>
  );
}

function words(prediction: Prediction, measured: RunPlacement | null, trans: TranslationBundle): string[] {
  const step = formatValue(prediction.step_seconds, 'seconds');
  return [
    prediction.calibrated ? trans.__('predicted step %1', step) : trans.__('predicted step %1, not calibrated', step),
    ...(measured && measured.step_seconds > 0
      ? [trans.__('measured %1', formatValue(measured.step_seconds, 'seconds'))]
      : []),
    trans.__('bubble %1', formatPercent(prediction.bubble)),
    ...(prediction.problems.length > 0 ? prediction.problems.map(({ message }) => message) : [trans.__('fits')])
  ];
}
