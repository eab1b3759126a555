import { expect, it } from 'vitest';

import type { EventSocket } from '../../../src/api/socket';
import { RunModel } from '../../../src/model/run';
import { ChosenPlot, chosenPlots } from '../../../src/plots/chosenplot';
import { ComparedRuns } from '../../../src/plots/comparedruns';
import { runInfo } from '../fixtures';

const socket = { show: () => undefined, subscribe: () => undefined, unsubscribe: () => undefined };

function runs(...metrics: string[]) {
  const latest = Object.fromEntries(metrics.map(metric => [metric, 1]));
  return [{ model: new RunModel(runInfo('a', { latest }), socket as unknown as EventSocket), title: 'a' }];
}

it('is one plot of a metric with its variants, or of one variant, or none while it is not reported', () => {
  const of = (metric: string) => new ChosenPlot(runs('loss', 'val_loss', 'accuracy'), 'step', metric).plots();
  expect(of('loss').map(({ metric, names }) => [metric, names])).toEqual([['loss', ['loss', 'val_loss']]]);
  expect(of('val_loss').map(({ names }) => names)).toEqual([['val_loss']]);
  expect(of('f1')).toEqual([]);
  const [plot] = of('accuracy');
  expect(plot!.heading).toBe(plot!.title); // it has no button that pins it
  const source = new ChosenPlot(runs('accuracy'), 'step', 'accuracy');
  expect(source.arrange(source.plots()).top).toHaveLength(1);
});

it('the chosen plots are at most 24 of those that match the filter, with pinned ones first', () => {
  const source = new ComparedRuns(runs('loss', 'accuracy', 'f1'), 'step');
  expect(chosenPlots(source, '', ['f1', 'elsewhere'])).toEqual(['f1', 'loss', 'accuracy']);
  expect(chosenPlots(source, 'acc', ['f1'])).toEqual(['accuracy']);
  const many = Array.from({ length: 40 }, (_, index) => `metric${index}`);
  expect(chosenPlots(new ComparedRuns(runs(...many), 'step'), '', ['metric39'])).toEqual([
    'metric39',
    ...many.slice(0, 23)
  ]);
});
