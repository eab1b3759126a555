import { nullTranslator } from '@jupyterlab/translation';
import { describe, expect, it, vi } from 'vitest';

import type { Input, LayerGraph } from '../../../../../src/api/schema';
import { findIn, inputNode, inputNodes, inputTexts } from '../../../../../src/model/graphinputs';
import { openAtFirst, treeOf } from '../../../../../src/model/layergraph';
import { describeInput } from '../../../../../src/views/designer/graph/graphinput';
import { KeyTarget, moveIn } from '../../../../../src/views/designer/graph/graphkeys';
import { layoutOf } from '../../../../../src/views/designer/graph/graphlayout';
import { boxOf, drawnEdges } from '../../../../../src/views/designer/graph/graphappearance';
import { blocks, chain, layer } from '../../../graphs';

const trans = nullTranslator.load('jupyter_dtf');

const input = (name: string, targets: string[], shape = [1, 64], dtype = 'float32'): Input => ({
  name,
  shape,
  dtype,
  targets
});

const taking = (graph: LayerGraph, ...inputs: Input[]) => treeOf({ ...graph, inputs });

describe('inputNodes', () => {
  it('have the shape without the batch dimension, and only known properties', () => {
    const tree = taking(
      chain([layer('a')]),
      input('pixels', ['a'], [1, 28, 28]),
      input('tokens', ['a'], [1, 5], ''),
      input('weight', ['a'], [1])
    );
    expect(inputNodes(tree, new Set(['']))).toHaveLength(3);
    expect(inputNodes(tree, new Set([''])).map(inputTexts)).toEqual([
      { name: 'pixels', detail: '28 × 28 · float32' },
      { name: 'tokens', detail: '5' },
      { name: 'weight', detail: 'float32' }
    ]);
  });

  it('go to the folded block around the layers that use them, and to each of these once it is open', () => {
    const graph = blocks(4);
    const mask = input('mask', ['block_0/up', 'block_1/up', 'head', 'not there']);
    const tree = taking(graph, mask);
    const repeat = tree.root.children[1]!.id;
    const targets = (open: ReadonlySet<string>) => inputNodes(tree, open)[0]!.targets.map(({ id }) => id);
    expect(targets(new Set(['']))).toEqual([repeat, 'head']);
    expect(targets(openAtFirst(tree))).toEqual(['block_0/up', 'block_1/up', 'head']);
    const edges = (open: ReadonlySet<string>) =>
      drawnEdges(tree, open, []).flatMap(edge => (edge.source === '/input/0' ? [edge.target] : []));
    expect(edges(new Set(['']))).toEqual([repeat, 'head']);
    expect(edges(openAtFirst(tree))).toEqual(['block_0/up', 'block_1/up', 'head']);
  });

  it('are merged if many go to the same node, until that is unfolded', () => {
    const names = Array.from({ length: 30 }, (_, i) => `feature_${i}`);
    const graph = chain([...names.map(name => layer(`embed/${name}`, name)), layer('both')]);
    const tree = taking(graph, ...names.map(name => input(name, [`embed/${name}`], [1, 3])), input('price', ['both']));
    const [all, price] = inputNodes(tree, new Set(['']));
    expect(inputTexts(all!)).toEqual({ name: 'feature_0 … feature_29', detail: '× 30' });
    expect(price!.inputs.map(({ name }) => name)).toEqual(['price']);
    expect(inputNodes(tree, new Set(['', 'embed']))).toHaveLength(31);
    const told = describeInput(all!, trans).split('\n');
    expect(told[0]).toBe('feature_0 · 3 · float32');
    expect(told).toHaveLength(10); // eight inputs, the number of the others, and the targets
  });

  it('are described as sent to the devices of the layers that use them', () => {
    const tree = taking(chain([layer('a'), layer('b')]), input('pixels', ['a', 'b']), input('unused', []));
    const [pixels, unused] = inputNodes(tree, new Set(['']));
    expect(describeInput(pixels!, trans)).toBe(
      'pixels · 64 · float32\nSent to the devices of the layers that use it: a, b'
    );
    expect(describeInput(unused!, trans)).toBe('unused · 64 · float32\nNo layer uses it');
  });
});

describe('findIn', () => {
  it('finds inputs by name and type before layers, and their nodes', () => {
    const names = Array.from({ length: 9 }, (_, i) => `feature_${i}`);
    const graph = chain([...names.map(name => layer(`embed/${name}`, name)), layer('both')]);
    const tree = taking(graph, ...names.map(name => input(name, [`embed/${name}`], [1], 'int32')));
    const texts = (text: string) =>
      findIn(tree, text).map(found => (found.kind === 'input' ? `input ${found.number}` : found.node.id));
    expect(texts('Feature_3')).toEqual(['input 3', 'embed/feature_3']);
    expect(texts('int32')).toHaveLength(9);
    expect(texts('both')).toEqual(['both']);
    expect(texts(' ')).toEqual([]);
    expect(inputNode(tree, new Set(['']), 3)?.id).toBe('/input/0'); // one node for all nine
    expect(inputNode(tree, new Set(['', 'embed']), 3)?.id).toBe('/input/3');
    expect(inputNode(tree, new Set(['']), 20)).toBeUndefined();
  });
});

describe('the layout', () => {
  it('has each input above the layers that use it, without overlap', () => {
    const graph = blocks(3);
    const tree = taking(graph, input('tokens', ['stem']), input('mask', ['block_1/up']));
    for (const open of [new Set(['']), openAtFirst(tree)]) {
      const { places } = layoutOf(boxOf(tree, open));
      const [tokens, mask] = [places['/input/0']!, places['/input/1']!];
      const around = tree.root.children[1]!;
      expect(tokens.y + tokens.height).toBeLessThan(places['stem']!.y);
      expect(mask.y + mask.height).toBeLessThan(places[around.id]!.y);
      expect(mask.height).toBeLessThan(places['stem']!.height);
      const all = [tokens, mask, ...tree.root.children.map(({ id }) => places[id]!)];
      all.forEach((one, index) =>
        all.slice(index + 1).forEach(other => {
          const apart =
            one.x + one.width <= other.x ||
            other.x + other.width <= one.x ||
            one.y + one.height <= other.y ||
            other.y + other.height <= one.y;
          expect(apart).toBe(true);
        })
      );
    }
  });

  it.each([2, 3, 6, 24])('has %i inputs of one block from left to right', count => {
    const names = Array.from({ length: count }, (_, i) => `x${i}`);
    const graph = chain(names.map(name => layer(`embed/${name}`, name)));
    const both = { ...graph, edges: names.map(name => ({ source: `embed/${name}`, target: 'both', bytes: 1 })) };
    const tree = taking(
      { ...both, layers: [...graph.layers, layer('both')] },
      ...names.map(name => input(name, [`embed/${name}`]))
    );
    const { places } = layoutOf(boxOf(tree, new Set(['', 'embed'])));
    const lefts = names.map((_, number) => places[`/input/${number}`]!.x);
    expect(lefts).toEqual([...lefts].sort((a, b) => a - b));
  });

  it('has only the layers if no inputs are known', () => {
    const tree = treeOf(blocks(3));
    const box = boxOf(tree, openAtFirst(tree));
    expect(box.children.map(({ id }) => id)).toEqual(tree.root.children.map(({ id }) => id));
  });
});

describe('the keys', () => {
  const tree = taking(chain([layer('a', 'A'), layer('b', 'B')]), input('x', ['a']), input('y', ['b']));
  const press = (key: string, current: string | null, more: Partial<KeyTarget & { shiftKey: boolean }> = {}) => {
    const target = {
      tree,
      open: new Set(['']),
      onOpen: vi.fn(),
      selected: new Set<string>(),
      onSelected: vi.fn(),
      current,
      onCurrent: vi.fn(),
      onChooseDevice: vi.fn(),
      onFind: vi.fn(),
      ...more
    };
    const event = { key, shiftKey: more.shiftKey ?? false, preventDefault: vi.fn(), stopPropagation: vi.fn() };
    moveIn(event as unknown as React.KeyboardEvent, target);
    return target;
  };

  it('move through the inputs to the layers, and back', () => {
    expect(press('Home', 'b').onCurrent).toHaveBeenCalledWith('/input/0');
    expect(press('ArrowDown', '/input/0').onCurrent).toHaveBeenCalledWith('/input/1');
    expect(press('ArrowDown', '/input/1').onCurrent).toHaveBeenCalledWith('a');
    expect(press('ArrowUp', 'a').onCurrent).toHaveBeenCalledWith('/input/1');
    expect(press('End', '/input/0').onCurrent).toHaveBeenCalledWith('b');
  });

  it('select only layers, and place no input', () => {
    const extended = press('ArrowUp', 'a', { shiftKey: true });
    expect(extended.onCurrent).toHaveBeenCalledWith('/input/1');
    expect(extended.onSelected).toHaveBeenCalledWith(new Set(['a']));
    expect(press('ArrowDown', '/input/1', { shiftKey: true }).onSelected).toHaveBeenCalledWith(new Set(['a']));
    expect(press(' ', '/input/0', { selected: new Set(['b']) }).onSelected).toHaveBeenCalledWith(new Set(['b']));
    expect(press('d', '/input/0').onChooseDevice).not.toHaveBeenCalled();
    expect(press('d', '/input/0', { selected: new Set(['b']) }).onChooseDevice).toHaveBeenCalled();
    expect(press('d', 'a').onSelected).toHaveBeenCalledWith(new Set(['a']));
  });
});
