import { describe, expect, it } from 'vitest';

import { PALETTE, taskColours } from '../../../src/plots/palette';

// The background of plots, --jp-layout-color1, in each of JupyterLab's themes.
const GROUNDS = { light: '#ffffff', dark: '#212121', 'dark high contrast': '#111111' };

/** Relative luminance, as the Web Content Accessibility Guidelines define it. */
function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map(at => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

describe.each(Object.entries(GROUNDS))('on the background of the %s theme', (_, ground) => {
  it.each(PALETTE)('%s has enough contrast', colour => expect(contrast(colour, ground)).toBeGreaterThanOrEqual(3));
});

describe('taskColours', () => {
  it('gives each task its own color while there are enough colors', () => {
    const tasks = PALETTE.map((_, index) => `worker:${index}`);
    expect(new Set(taskColours(tasks).values()).size).toBe(PALETTE.length);
    expect(taskColours([...tasks, 'ps:0']).get('ps:0')).toBe(PALETTE[0]);
  });
});
