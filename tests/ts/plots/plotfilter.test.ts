import { describe, expect, it } from 'vitest';

import { filterOf } from '../../../src/plots/plotfilter';
import { plotsOf } from '../../../src/plots/metricplots';

const found = (filter: string, ...metrics: string[]) =>
  plotsOf(metrics)
    .filter(filterOf(filter))
    .map(plot => plot.metric);

describe('filterOf', () => {
  it.each([
    ['', true],
    ['  ', true],
    ['LOSS', true],
    ['val_loss', true],
    ['val loss', true],
    ['accuracy', false]
  ])('%j', (filter, expected) => expect(found(filter, 'loss', 'val_loss').length > 0).toBe(expected));

  it('finds only metrics that have validation', () =>
    expect(found('val', 'loss', 'val_loss', 'norm')).toEqual(['loss']));

  it('matches the title as well as the name', () =>
    expect(found('examples/s', 'examples_per_second', 'loss')).toEqual(['examples_per_second']));

  it.each([
    ['layer_[12]/', ['layer_1/norm', 'layer_2/norm']],
    ['norm$ layer', ['layer_1/norm', 'layer_2/norm', 'layer_12/norm']],
    ['^norm', ['norm']],
    ['layer_1*/norm', ['layer_1/norm', 'layer_12/norm']],
    ['(layer', []] // an incomplete expression is matched literally
  ])('supports regular expressions and asterisks: %j', (filter, expected) =>
    expect(found(filter, 'layer_1/norm', 'layer_2/norm', 'layer_12/norm', 'norm')).toEqual(expected)
  );
});
