import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Prediction, RunPlacement } from '../../../api/schema';
import { formatPercent, formatValue } from '../../../model/format';
import { Gantt, ganttHeight } from './placementgantt';

/** The predicted step as text and as a Gantt chart, above the step of the overlaid run. */
export function Forecast(props: {
  prediction: Prediction | null;
  measured: RunPlacement | null;
  /** The batch size of the drawing. */
  batchSize: number;
  /** The number of devices: their space is reserved, so that nothing jumps when the prediction arrives. */
  devices: number;
  colours: ReadonlyMap<string, string>;
  /** The settings that a step depends on, shown next to its duration. */
  children?: React.ReactNode;
  trans: TranslationBundle;
}): React.ReactElement {
  const { prediction, measured, batchSize, devices, colours, children, trans } = props;
  const parts = [
    { title: trans.__('predicted'), slots: prediction?.timeline ?? [] },
    { title: trans.__('traced'), slots: measured?.timeline ?? [] }
  ].filter(part => part.slots.length > 0);
  const told = measured && measuredText(measured, batchSize, trans);
  return (
    <footer className="jp-dtf-forecast" aria-label={trans.__('Duration of a step')}>
      <p>
        {prediction
          ? words(prediction, trans).join(' · ')
          : trans.__('A step can be predicted once layers are placed on devices and all numbers are valid.')}
      </p>
      {told && <p>{told}</p>}
      {children}
      <div style={{ minHeight: ganttHeight(devices) }}>
        {parts.map(part => (
          <Gantt key={part.title} part={part} colours={colours} trans={trans} />
        ))}
      </div>
    </footer>
  );
}

function words(prediction: Prediction, trans: TranslationBundle): string[] {
  const step = formatValue(prediction.step_seconds, 'seconds');
  return [
    prediction.calibrated ? trans.__('predicted step %1', step) : trans.__('predicted step %1, not calibrated', step),
    trans.__('bubble %1', formatPercent(prediction.bubble)),
    ...(prediction.problems.length > 0 ? prediction.problems.map(({ message }) => message) : [trans.__('fits')])
  ];
}

/**
 * The duration of the run's steps, which steps it is based on, and the duration of the traced step, which tracing makes
 * longer.
 */
function measuredText(measured: RunPlacement, batchSize: number, trans: TranslationBundle): string {
  const { steps, step_seconds: traced } = measured;
  const seconds = (value: number) => formatValue(value, 'seconds');
  const said = steps
    ? [
        trans._n(
          'measured step %2: only one step was counted',
          'measured step %2: the median of %1 steps, half of them from %3 to %4',
          steps.count,
          seconds(steps.median_s),
          seconds(steps.low_s),
          seconds(steps.high_s)
        ),
        trans.__('without the first %1', steps.left_out),
        ...(steps.batch_size > 0 && steps.batch_size !== batchSize
          ? [trans.__('with %1 examples, not %2 as in the drawing', steps.batch_size, batchSize)]
          : [])
      ]
    : [trans.__('The run has too few steps for a measurement')];
  return [...said, ...(traced > 0 ? [trans.__('the traced step, drawn below, took %1', seconds(traced))] : [])].join(
    ' · '
  );
}
