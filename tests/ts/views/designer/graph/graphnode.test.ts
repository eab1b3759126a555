import { nullTranslator } from '@jupyterlab/translation';
import { expect, it } from 'vitest';

import { TreeNode, treeOf } from '../../../../../src/model/layergraph';
import { describeNode, LayerNodeData } from '../../../../../src/views/designer/graph/graphnode';
import { blocks } from '../../../graphs';

const trans = nullTranslator.load('jupyter_dtf');

it('describes in words how often a block repeats, and where it is placed', () => {
  const [stem, repeat] = treeOf(blocks(12)).root.children;
  const look = { shares: [{ device: null, part: 1, colour: null }] };
  const describe = (node: TreeNode | undefined) =>
    describeNode({ node, layer: null, look, trans } as unknown as LayerNodeData);
  expect(describe(repeat)).toBe('block_0 … block_11, 12 times, block of 36 layers, not placed');
  expect(describe(stem)).not.toContain('times');
});
