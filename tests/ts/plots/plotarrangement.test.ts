import { describe, expect, it } from 'vitest';

import { Arrangement, arrange, FEW_PLOTS, keysOf, openByDefault, shortTitle } from '../../../src/plots/plotarrangement';
import { plotsOf } from '../../../src/plots/metricplots';

const names = (count: number, name: (index: number) => string) => Array.from({ length: count }, (_, i) => name(i));
const of = (metrics: string[], pinned: string[] = []) => arrange(plotsOf(metrics), pinned);
const top = (arrangement: Arrangement) => arrangement.top.map(plot => plot.metric);
const headings = (arrangement: Arrangement) => arrangement.families.map(({ title, count }) => `${title} ${count}`);

describe('arrange', () => {
  it('puts names with a prefix under a heading and the others above', () => {
    const arrangement = of(['encoder/norm', 'loss', 'encoder/block/entropy', 'decoder/norm', '/odd', 'odd/']);
    expect(top(arrangement)).toEqual(['loss', '/odd', 'odd/']);
    expect(headings(arrangement)).toEqual(['encoder 2', 'decoder 1']);
    expect(arrangement.families[0]!.plots.map(shortTitle)).toEqual(['norm', 'block/entropy']);
  });

  it('groups numbered names, and puts numbered prefixes under another heading', () => {
    const arrangement = of([
      ...names(10, i => `class_${i}_f1`),
      ...names(20, i => `layer_${i >> 1}/${i % 2}`),
      'top_5'
    ]);
    expect(top(arrangement)).toEqual(['top_5']);
    expect(headings(arrangement)).toEqual(['class_*_f1 10', 'layer_* 20']);
    expect(arrangement.families[1]!.families.map(one => one.title)).toEqual(names(10, i => `layer_${i}`));
    expect(keysOf(arrangement.families)).toHaveLength(12);
    expect(new Set(keysOf(arrangement.families)).size).toBe(12);
  });

  it('keeps the important metrics above many others', () => {
    const arrangement = of([
      ...names(40, i => `m${String.fromCharCode(97 + (i % 26), 97 + i)}`),
      'loss',
      'learning_rate'
    ]);
    expect(top(arrangement)).toEqual(['loss', 'learning_rate']);
    expect(headings(arrangement)).toEqual([' 40']);
  });

  it('puts pinned plots first, in the order in which they were pinned, and nowhere else', () => {
    const arrangement = of(['loss', 'a/x', 'a/y'], ['a/y', 'unheard', 'loss']);
    expect(top(arrangement)).toEqual(['a/y', 'loss']);
    expect(headings(arrangement)).toEqual(['a 1']);
  });

  it('handles thousands of metrics', () => {
    const arrangement = of(names(5000, i => `layer_${i}/norm`));
    expect(arrangement.families).toHaveLength(1);
    expect(arrangement.families[0]!.count).toBe(5000);
  });
});

describe('openByDefault', () => {
  const open = (metrics: string[]) => [...openByDefault(of(metrics))];

  it('opens everything if there are few plots', () => {
    expect(open(['loss', 'a/x', 'b/x'])).toEqual(['a', 'b']);
  });

  it('opens no more plots than a user can look through', () => {
    expect(open(['loss', ...names(FEW_PLOTS, i => `a/${i}`), 'b/x'])).toEqual(['b']);
    expect(open(['loss', ...names(100, i => `layer_${i}/norm`)])).toEqual([]);
  });

  it('does not leave the page empty', () => {
    expect(open(names(100, i => `m${i}`))).toEqual(['m*']);
  });
});
