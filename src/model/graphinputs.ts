/**
 * The inputs of a model, drawn above the folded graph of its layers. An input is neither a layer nor a `TreeNode`.
 * Pure.
 */

import type { Input } from '../api/schema';
import { findLayers, LayerTree, standsFor, TreeNode } from './layergraph';

/** Inputs that are drawn as one node. */
export interface InputNode {
  /** Unique among the nodes of the tree: it begins with a slash, and the tree's ids are paths. */
  readonly id: string;
  readonly inputs: readonly Input[];
  /** The drawn nodes of the layers that take these inputs. */
  readonly targets: readonly TreeNode[];
}

/**
 * Up to this many inputs with the same targets are drawn individually; more are combined until their target is
 * unfolded.
 */
const MOST_ALIKE = 6;

/** The inputs of a graph in which these nodes are open, in order. */
export function inputNodes(tree: LayerTree, open: ReadonlySet<string>): InputNode[] {
  const stands = standsFor(tree, open);
  const groups = new Map<string, { targets: TreeNode[]; numbers: number[] }>();
  tree.graph.inputs.forEach((input, number) => {
    const nodes = input.targets.flatMap(id => stands[tree.index.get(id) ?? -1] ?? []);
    const targets = [...new Set(nodes)];
    const key = JSON.stringify(targets.map(node => node.id));
    const group = groups.get(key) ?? groups.set(key, { targets, numbers: [] }).get(key)!;
    group.numbers.push(number);
  });
  const made = [...groups.values()].flatMap(({ targets, numbers }) =>
    (numbers.length > MOST_ALIKE ? [numbers] : numbers.map(number => [number])).map(together => ({
      number: together[0]!,
      node: { id: `/input/${together[0]!}`, inputs: together.map(number => tree.graph.inputs[number]!), targets }
    }))
  );
  return made.sort((one, other) => one.number - other.number).map(({ node }) => node);
}

/** The text of an input's node: its name, and the shape of one example with the dtype, if known. */
export function inputTexts({ inputs }: InputNode): { name: string; detail: string } {
  const [first, last] = [inputs[0]!, inputs[inputs.length - 1]!];
  return inputs.length === 1
    ? { name: first.name, detail: detailOf(first) }
    : { name: `${first.name} … ${last.name}`, detail: `× ${inputs.length}` };
}

/** `64 · float32`. Shapes are stored with a batch dimension of one, which is omitted here. */
function detailOf({ shape, dtype }: Input): string {
  return [shape.slice(1).join(' × '), dtype].filter(part => part !== '').join(' · ');
}

/** A search result in a graph: a layer, or an input by its index in the model. */
export type Found = { kind: 'layer'; node: TreeNode } | { kind: 'input'; number: number };

/** The inputs whose name or dtype, and the layers whose path or class, contain a string, ignoring case. */
export function findIn(tree: LayerTree, text: string): Found[] {
  const wanted = text.trim().toLowerCase();
  const inputs = tree.graph.inputs.flatMap(({ name, dtype }, number): Found[] => {
    const holds = name.toLowerCase().includes(wanted) || `input ${dtype}`.includes(wanted);
    return wanted !== '' && holds ? [{ kind: 'input', number }] : [];
  });
  return [...inputs, ...findLayers(tree, text).map((node): Found => ({ kind: 'layer', node }))];
}

/** The drawn node of an input, whether it is drawn alone or combined with others. */
export function inputNode(tree: LayerTree, open: ReadonlySet<string>, number: number): InputNode | undefined {
  const input = tree.graph.inputs[number];
  return inputNodes(tree, open).find(({ inputs }) => input !== undefined && inputs.includes(input));
}
