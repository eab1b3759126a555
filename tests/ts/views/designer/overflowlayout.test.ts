import { describe, expect, it } from 'vitest';

import { Fitted, fitting } from '../../../../src/views/designer/overflowlayout';

const SIZES = { gap: 8, more: 64 };
const CONTROLS: Fitted[] = [
  { id: 'model', px: 140, stays: Infinity },
  { id: 'place', px: 130, stays: 6 },
  { id: 'profile', px: 60, stays: 2 },
  { id: 'compare', px: 230, stays: 3 },
  { id: 'folds', px: 150, stays: 1 },
  { id: 'find', px: 80, stays: Infinity }
];
/** The order in which controls leave the bar. */
const LEAVING = ['folds', 'profile', 'compare', 'place'];
const ALL = 140 + 130 + 60 + 230 + 150 + 80 + 5 * 8;

/** Returns the width that these controls take, including the menu button if there are others. */
function taken(out: ReadonlySet<string>): number {
  const px = CONTROLS.filter(({ id }) => out.has(id)).map(control => control.px);
  const shown = out.size < CONTROLS.length ? [...px, SIZES.more] : px;
  return shown.reduce((sum, one) => sum + one, 0) + SIZES.gap * (shown.length - 1);
}

describe('fitting', () => {
  it('fits at every width, and omits no more controls than needed, in order of priority', () => {
    let before: ReadonlySet<string> = new Set();
    for (let width = 300; width <= 1600; width++) {
      const out = fitting(CONTROLS, width, SIZES);
      expect(taken(out)).toBeLessThanOrEqual(width);
      const behind = LEAVING.filter(id => !out.has(id));
      expect(behind).toEqual(LEAVING.slice(0, behind.length));
      const last = behind.at(-1);
      if (last !== undefined) {
        expect(taken(new Set([...out, last]))).toBeGreaterThan(width);
      }
      expect([...before].filter(id => !out.has(id))).toEqual([]); // controls stay in the bar as it gets wider
      expect(out.has('model') && out.has('find')).toBe(true);
      before = out;
    }
    expect([...fitting(CONTROLS, 300, SIZES)]).toEqual(['model', 'find']);
  });

  it('needs no menu button if everything fits exactly', () => {
    expect(fitting(CONTROLS, ALL, SIZES).size).toBe(CONTROLS.length);
    expect(LEAVING.filter(id => !fitting(CONTROLS, ALL - 1, SIZES).has(id))).toEqual(['folds']);
  });

  it('keeps controls that always stay, even if they are too wide', () => {
    expect([...fitting(CONTROLS, 100, SIZES)]).toEqual(['model', 'find']);
    expect(fitting([], 100, SIZES).size).toBe(0);
  });

  it('omits the later of two equal controls', () => {
    const alike = ['a', 'b'].map(id => ({ id, px: 100, stays: 1 }));
    expect([...fitting(alike, 200, SIZES)]).toEqual(['a']);
  });
});
