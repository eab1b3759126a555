import { describe, expect, it } from 'vitest';

import { folded, Tick } from '../../../src/plots/axismarks';

const ticks = (...steps: number[]): Tick[] =>
  steps.map(step => ({ x: step / 10, step, label: `checkpoint of step ${step}` }));

describe('folded', () => {
  it('leaves ticks that are far enough from each other alone', () => {
    expect(folded(ticks(10, 20), 1)).toEqual([
      { start: 1, end: 1, label: 'checkpoint of step 10' },
      { start: 2, end: 2, label: 'checkpoint of step 20' }
    ]);
    expect(folded([], 1)).toEqual([]);
  });

  it('makes one of those that are near, however many follow each other', () => {
    expect(folded(ticks(10, 15, 20, 25, 60), 1)).toEqual([
      { start: 1, end: 2.5, label: '4 checkpoints, of steps 10 to 25' },
      { start: 6, end: 6, label: 'checkpoint of step 60' }
    ]);
  });
});
