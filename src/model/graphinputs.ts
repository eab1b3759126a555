/** What goes into a model, as it is drawn above a folded graph of its layers. An input is no layer, and no `TreeNode`. Pure. */

import type { Input } from '../api/schema';
import { findLayers, LayerTree, standsFor, TreeNode } from './layergraph';

/** Inputs that are drawn as one. */
export interface InputNode {
  /** No node of the tree has it: it begins with a slash, where those are paths. */
  readonly id: string;
  readonly inputs: readonly Input[];
  /** What is drawn of the layers that take them. */
  readonly targets: readonly TreeNode[];
}

/** As many that go to the same nodes are drawn one by one; more are one, until what takes them is unfolded. */
const MOST_ALIKE = 6;

/** The inputs of a graph that has these nodes open, in their order. */
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

/** What is written in an input's node: its name, and the shape of one example with the type, where they are known. */
export function inputTexts({ inputs }: InputNode): { name: string; detail: string } {
  const [first, last] = [inputs[0]!, inputs[inputs.length - 1]!];
  return inputs.length === 1
    ? { name: first.name, detail: detailOf(first) }
    : { name: `${first.name} … ${last.name}`, detail: `× ${inputs.length}` };
}

/** `64 · float32`. Shapes are kept with a batch of one example, which is left out here. */
function detailOf({ shape, dtype }: Input): string {
  return [shape.slice(1).join(' × '), dtype].filter(part => part !== '').join(' · ');
}

/** What a search of a graph comes to: a layer, or an input by its place in the model's list. */
export type Found = { kind: 'layer'; node: TreeNode } | { kind: 'input'; number: number };

/** The inputs whose name or type, and the layers whose path or class, holds a text, whatever its case. */
export function findIn(tree: LayerTree, text: string): Found[] {
  const wanted = text.trim().toLowerCase();
  const inputs = tree.graph.inputs.flatMap(({ name, dtype }, number): Found[] => {
    const holds = name.toLowerCase().includes(wanted) || `input ${dtype}`.includes(wanted);
    return wanted !== '' && holds ? [{ kind: 'input', number }] : [];
  });
  return [...inputs, ...findLayers(tree, text).map((node): Found => ({ kind: 'layer', node }))];
}

/** What is drawn of an input: by itself, or together with others. */
export function inputNode(tree: LayerTree, open: ReadonlySet<string>, number: number): InputNode | undefined {
  const input = tree.graph.inputs[number];
  return inputNodes(tree, open).find(({ inputs }) => input !== undefined && inputs.includes(input));
}
