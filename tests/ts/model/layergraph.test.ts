import { describe, expect, it } from 'vitest';

import {
  findLayers,
  openAll,
  openAtFirst,
  pathBetween,
  revealed,
  shownNodes,
  standsFor,
  timesOf,
  treeOf
} from '../../../src/model/layergraph';
import { blocks, chain, layer } from '../graphs';

const names = (nodes: readonly { name: string }[]) => nodes.map(node => node.name);

describe('treeOf', () => {
  it('makes blocks from the paths', () => {
    const tree = treeOf(chain([layer('a'), layer('enc/x', 'Conv2D'), layer('enc/y'), layer('z', 'Dense', 9)]));
    expect(names(tree.root.children)).toEqual(['a', 'enc', 'z']);
    expect(names(tree.nodes.get('enc')!.children)).toEqual(['x', 'y']);
    expect(tree.leaves.map(node => node.id)).toEqual(['a', 'enc/x', 'enc/y', 'z']);
  });

  it('folds blocks with the same structure into one node', () => {
    const tree = treeOf(blocks(12));
    expect(names(tree.root.children)).toEqual(['stem', 'block_0 … block_11', 'head']);
    const repeat = tree.root.children[1]!;
    expect([repeat.kind, timesOf(repeat), repeat.layers.length]).toEqual(['repeat', 12, 36]);
  });

  it('folds a repeating pattern of layers without blocks', () => {
    const flat = Array.from({ length: 5 }, (_, i) => [layer(`conv_${i}`, 'Conv2D'), layer(`norm_${i}`, 'Norm')]).flat();
    const tree = treeOf(chain([layer('in', 'Embedding'), ...flat]));
    expect(names(tree.root.children)).toEqual(['in', 'conv_0 … norm_4']);
    expect(tree.root.children[1]!.children.map(part => [part.kind, ...names(part.children)])).toEqual(
      [0, 1, 2, 3, 4].map(i => ['part', `conv_${i}`, `norm_${i}`])
    );
  });

  it('never has more than 40 children per node, whatever the model', () => {
    const kinds = Array.from({ length: 10_000 }, (_, i) => layer(`layer_${i}`, `Kind${i % 997}`));
    const tree = treeOf(chain(kinds));
    expect(Math.max(...[...tree.nodes.values()].map(node => node.children.length))).toBeLessThanOrEqual(40);
    expect(new Set(tree.leaves).size).toBe(10_000);
    const repeated = treeOf(blocks(3000));
    expect(Math.max(...[...repeated.nodes.values()].map(node => node.children.length))).toBeLessThanOrEqual(40);
    expect(timesOf(repeated.root.children[1]!)).toBe(3000);
  });

  it('keeps a layer that contains others as the first in its block', () => {
    const tree = treeOf(chain([layer('attention', 'Mine'), layer('attention/query')]));
    const block = tree.nodes.get('attention')!;
    expect(block.children.map(node => [node.id, node.kind])).toEqual([
      ['attention/', 'layer'],
      ['attention/query', 'layer']
    ]);
  });

  it('gives every node a unique id', () => {
    const tree = treeOf(blocks(200));
    const ids: string[] = [];
    const visit = (node: typeof tree.root) => {
      ids.push(node.id);
      node.children.forEach(visit);
    };
    visit(tree.root);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe('the open nodes', () => {
  it('are all nodes of a small model, and few of a large one', () => {
    const small = treeOf(blocks(4));
    expect(shownNodes(small, openAtFirst(small)).filter(node => node.kind === 'layer')).toHaveLength(14);
    const large = treeOf(blocks(3000));
    expect(shownNodes(large, openAtFirst(large)).length).toBeLessThanOrEqual(200);
  });

  it('can be all nodes, up to the number that can be drawn', () => {
    const tree = treeOf(blocks(4));
    const all = openAll(tree, 1500);
    expect(all.complete).toBe(true);
    expect(shownNodes(tree, all.open).filter(node => node.kind === 'layer')).toHaveLength(14);
    const large = openAll(treeOf(blocks(3000)), 1500);
    expect(large.complete).toBe(false);
  });

  it('are extended to show a layer', () => {
    const tree = treeOf(blocks(12));
    const folded = new Set([tree.root.id]);
    expect(names(shownNodes(tree, folded))).not.toContain('drop');
    const open = revealed(tree.nodes.get('block_7/drop')!, folded);
    expect(shownNodes(tree, open).map(node => node.id)).toContain('block_7/drop');
    expect(shownNodes(tree, open).map(node => node.id)).not.toContain('block_8/drop');
  });

  it('represent every layer', () => {
    const tree = treeOf(blocks(12));
    const stands = standsFor(tree, new Set([tree.root.id]));
    expect(new Set(stands.map(node => node.name))).toEqual(new Set(['stem', 'block_0 … block_11', 'head']));
  });
});

describe('pathBetween', () => {
  const diamond = {
    ...chain([layer('a'), layer('b'), layer('c'), layer('d'), layer('aside')]),
    edges: [
      ['a', 'b'],
      ['a', 'c'],
      ['b', 'd'],
      ['c', 'd'],
      ['a', 'aside']
    ].map(([source, target]) => ({ source: source!, target: target!, bytes: 1 }))
  };

  it('returns every layer on the path, in either direction', () => {
    const tree = treeOf(diamond);
    expect(pathBetween(tree, 0, 3)).toEqual([0, 1, 2, 3]);
    expect(pathBetween(tree, 3, 0)).toEqual([0, 1, 2, 3]);
    expect(pathBetween(tree, 1, 2)).toEqual([]);
  });
});

describe('findLayers', () => {
  it('searches names and classes', () => {
    const tree = treeOf(blocks(2));
    expect(findLayers(tree, 'DROP').map(node => node.id)).toEqual(['block_0/drop', 'block_1/drop']);
    expect(findLayers(tree, 'embedding').map(node => node.id)).toEqual(['stem']);
    expect(findLayers(tree, ' ')).toEqual([]);
  });
});
