import { describe, expect, it } from 'vitest';

import { folded, Tick } from '../../../src/plots/axismarks';

const ticks = (...steps: number[]): Tick[] =>
  steps.map(step => ({ x: step / 10, step, label: `checkpoint of step ${step}` }));

describe('folded', () => {
  it('keeps ticks that are far enough apart', () => {
    expect(folded(ticks(10, 20), 1)).toEqual([
      { start: 1, end: 1, label: 'checkpoint of step 10' },
      { start: 2, end: 2, label: 'checkpoint of step 20' }
    ]);
    expect(folded([], 1)).toEqual([]);
  });

  it('merges ticks that are close to each other, however many there are', () => {
    expect(folded(ticks(10, 15, 20, 25, 60), 1)).toEqual([
      { start: 1, end: 2.5, label: '4 checkpoints, of steps 10 to 25' },
      { start: 6, end: 6, label: 'checkpoint of step 60' }
    ]);
  });
});
