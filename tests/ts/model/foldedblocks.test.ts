import { describe, expect, it } from 'vitest';

import { openIn, withFolds } from '../../../src/model/foldedblocks';
import { openAtFirst, treeOf } from '../../../src/model/layergraph';
import { blocks, chain, layer } from '../graphs';

const few = treeOf(chain([layer('stem'), layer('block/up'), layer('block/down'), layer('head')]));
const many = treeOf(blocks(40)); // with a repeat that is folded at first

describe('the folds of a drawing', () => {
  it('are empty for the initial state', () => {
    expect(openIn(few, {})).toEqual(openAtFirst(few));
    expect(withFolds({}, few, openAtFirst(few))).toEqual({});
    expect(withFolds({ folded: ['block'] }, few, openAtFirst(few))).toEqual({});
  });

  it.each([
    [few, ['block'], []],
    [many, [], [...many.nodes.values()].filter(node => node.kind === 'repeat').map(node => node.id)]
  ])('are restored when the design is opened again', (tree, folded, unfolded) => {
    const open = openAtFirst(tree);
    folded.forEach(id => expect(open.delete(id)).toBe(true));
    unfolded.forEach(id => open.add(id));
    expect(folded.length + unfolded.length).toBe(1);
    const kept = withFolds({ positions: { head: [1, 2] } }, tree, open);
    expect(kept).toEqual({
      positions: { head: [1, 2] },
      ...(folded.length > 0 && { folded }),
      ...(unfolded.length > 0 && { unfolded })
    });
    expect(openIn(tree, JSON.parse(JSON.stringify(kept)) as typeof kept)).toEqual(open);
  });

  it.each([
    [{ folded: ['gone'], unfolded: ['gone', 'stem'] }], // of an earlier model; a layer has nothing to unfold
    [{ folded: [''] }], // the model itself
    [{ folded: 'block', unfolded: [1, null] }]
  ])('ignore invalid entries: %j', drawing => {
    expect(openIn(few, drawing)).toEqual(openAtFirst(few));
  });
});
