import { describe, expect, it } from 'vitest';

import { axisBehind, paceOf, scaleOf } from '../../../src/model/shownaxis';

const progress = { total: 100, unit: 'step', epochs: 4 };

describe('paceOf', () => {
  it('prefers the end of an epoch to the planned number of steps', () => {
    expect(paceOf(progress, null, { batch_size: 32 })).toEqual({ epoch: 25, examples: 32 });
    expect(paceOf(progress, { epoch: 1, step: 40 }, {})).toEqual({ epoch: 20, examples: null });
  });

  it('computes the batch size from the examples of an epoch', () => {
    expect(paceOf(progress, null, { examples: 1000 })).toEqual({ epoch: 25, examples: 40 });
  });

  it('returns nothing for a program without this information', () => {
    expect(paceOf({ total: 0, unit: '', epochs: 0 }, null, {})).toEqual({ epoch: null, examples: null });
  });
});

it('scales steps, and leaves times as they are', () => {
  const pace = { epoch: 25, examples: 40 };
  expect([scaleOf('epoch', pace), scaleOf('examples', pace), scaleOf('wall', pace)]).toEqual([0.04, 40, 1]);
  expect([axisBehind('epoch'), axisBehind('wall')]).toEqual(['step', 'time']);
});
