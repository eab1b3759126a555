/** Graphs of layers for the tests of the designer. */

import type { Layer, LayerGraph } from '../../src/api/schema';

/** Returns a layer of this class, with round numbers. */
export function layer(id: string, kind = 'Dense', units = 4): Layer {
  return {
    id,
    kind,
    calls: 1,
    input_shapes: [[1, units]],
    output_shapes: [[1, units]],
    parameters: 10,
    parameter_bytes: 40,
    gradient_bytes: 40,
    slot_bytes: 80,
    activation_bytes: 16,
    flops: 100
  };
}

/** Returns a graph in which each layer is connected to the previous one. */
export function chain(layers: Layer[]): LayerGraph {
  const edges = layers.slice(1).map((next, index) => ({ source: layers[index]!.id, target: next.id, bytes: 16 }));
  return { model: 'net', layers, edges, inputs: [], notes: [], refusals: [], takes_turns: false };
}

/** Returns a chain of `stem`, `count` blocks of a Dense, a Dropout and a Dense, and `head`. */
export function blocks(count: number): LayerGraph {
  const inner = (block: number) => [
    layer(`block_${block}/up`, 'Dense', 8),
    layer(`block_${block}/drop`, 'Dropout', 8),
    layer(`block_${block}/down`)
  ];
  return chain([
    layer('stem', 'Embedding'),
    ...Array.from({ length: count }, (_, block) => inner(block)).flat(),
    layer('head', 'Dense', 2)
  ]);
}
