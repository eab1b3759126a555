import { describe, expect, it } from 'vitest';

import { PALETTE, taskColours } from '../../../src/plots/palette';

describe('taskColours', () => {
  it('gives each task its own colour while there are colours', () => {
    const tasks = PALETTE.map((_, index) => `worker:${index}`);
    expect(new Set(taskColours(tasks).values()).size).toBe(PALETTE.length);
    expect(taskColours([...tasks, 'ps:0']).get('ps:0')).toBe(PALETTE[0]);
  });
});
