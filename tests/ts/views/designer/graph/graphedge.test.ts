import { expect, it } from 'vitest';

import { openAtFirst, treeOf } from '../../../../../src/model/layergraph';
import { flowEdges } from '../../../../../src/views/designer/graph/graphedge';
import { layoutOf } from '../../../../../src/views/designer/graph/graphlayout';
import { boxOf, drawnEdges } from '../../../../../src/views/designer/graph/graphappearance';
import { chain, layer } from '../../../graphs';

it('has its label near its source if it leads into a frame, whose title would be in the way', () => {
  const tree = treeOf(chain([layer('stem'), layer('block/up'), layer('block/down', 'Other'), layer('head')]));
  const open = openAtFirst(tree);
  const edges = flowEdges(drawnEdges(tree, open, []), tree, layoutOf(boxOf(tree, open)));
  expect(edges.map(({ source, target, type }) => [source, target, type ?? 'default'])).toEqual([
    ['stem', 'block/up', 'entering'],
    ['block/up', 'block/down', 'default'],
    ['block/down', 'head', 'default']
  ]);
});
