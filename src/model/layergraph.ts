/** A model's layers as a tree of foldable blocks, built from their paths, repetitions and number. Pure. */

import type { Layer, LayerGraph } from '../api/schema';
import { repeatsOf } from './repeatedsequences';

/**
 * `layer`: one layer of the model. `block`: a container of the model. `repeat`: a sequence of identical blocks or
 * layers. `part`: one repetition that consists of several layers. `section`: a slice of a long list.
 */
export type NodeKind = 'layer' | 'block' | 'repeat' | 'part' | 'section';

/** Anything that is drawn as one node when folded. */
export interface TreeNode {
  readonly id: string;
  readonly kind: NodeKind;
  /** The last component of its path, or the names of its first and last child. */
  readonly name: string;
  readonly parent: TreeNode | null;
  readonly children: TreeNode[];
  /** Indices into the graph's layers, ascending. */
  readonly layers: readonly number[];
  /** Nodes with the same signature have the same structure. */
  readonly signature: string;
}

/** A graph's tree, and the position of each layer in it. */
export interface LayerTree {
  readonly graph: LayerGraph;
  readonly root: TreeNode;
  readonly nodes: ReadonlyMap<string, TreeNode>;
  /** The node of each layer, by layer index. */
  readonly leaves: readonly TreeNode[];
  /** Layer indices by layer id. */
  readonly index: ReadonlyMap<string, number>;
}

const MOST_CHILDREN = 40;

/** Build the tree of a graph. No node has more than 40 children, however long the model is. */
export function treeOf(graph: LayerGraph): LayerTree {
  const paths: Path = { parts: new Map(), layer: null };
  graph.layers.forEach((layer, index) => {
    let at = paths;
    for (const part of layer.id.split('/')) {
      at = at.parts.get(part) ?? at.parts.set(part, { parts: new Map(), layer: null }).get(part)!;
    }
    at.layer = index;
  });
  const signatures = new Map<string, string>();
  const root = build(paths, '', graph.model, 'block', graph.layers, signatures);
  const nodes = new Map<string, TreeNode>();
  const leaves: TreeNode[] = new Array<TreeNode>(graph.layers.length);
  const visit = (node: TreeNode) => {
    nodes.set(node.id, node);
    if (node.kind === 'layer') {
      leaves[node.layers[0]!] = node;
    }
    node.children.forEach(visit);
  };
  visit(root);
  return { graph, root, nodes, leaves, index: new Map(graph.layers.map((layer, index) => [layer.id, index])) };
}

/** A node in the tree of layer paths, before folding. */
interface Path {
  readonly parts: Map<string, Path>;
  layer: number | null;
}

type Made = { -readonly [Key in keyof TreeNode]: TreeNode[Key] };

function build(
  path: Path,
  id: string,
  name: string,
  kind: NodeKind,
  layers: readonly Layer[],
  signatures: Map<string, string>
): TreeNode {
  const own = path.layer === null ? null : layerNode(path.layer, layers[path.layer]!, id, name);
  if (own && path.parts.size === 0) {
    return own;
  }
  const children = [...path.parts].map(([part, inner]) =>
    build(inner, id === '' ? part : `${id}/${part}`, part, 'block', layers, signatures)
  );
  if (own) {
    // A layer with sublayers that also computes something itself becomes the first child of its own block.
    children.unshift({ ...own, id: `${id}/` });
  }
  children.sort((a, b) => a.layers[0]! - b.layers[0]!);
  return group(id, name, kind, sectioned(repeated(children, id, signatures), id, signatures), signatures);
}

function layerNode(index: number, layer: Layer, id: string, name: string): TreeNode {
  const signature = `${layer.kind} ${layer.parameters} ${JSON.stringify(layer.output_shapes)}`;
  return { id, kind: 'layer', name, parent: null, children: [], layers: [index], signature };
}

function group(
  id: string,
  name: string,
  kind: NodeKind,
  children: TreeNode[],
  signatures: Map<string, string>
): TreeNode {
  // Block signatures would double in length at each level, so each distinct signature is replaced by a number.
  const whole = children.map(child => child.signature).join('|');
  const signature = signatures.get(whole) ?? signatures.set(whole, `#${signatures.size}`).get(whole)!;
  const layers = children.flatMap(child => child.layers).sort((a, b) => a - b);
  const made: Made = { id, kind, name, parent: null, children, layers, signature };
  children.forEach(child => ((child as Made).parent = made));
  return made;
}

function repeated(children: TreeNode[], id: string, signatures: Map<string, string>): TreeNode[] {
  const result: TreeNode[] = [];
  let next = 0;
  for (const { start, period, count } of repeatsOf(children.map(child => child.signature))) {
    result.push(...children.slice(next, start));
    next = start + period * count;
    const parts = Array.from({ length: count }, (_, part) => {
      const members = children.slice(start + part * period, start + (part + 1) * period);
      return period === 1
        ? members[0]!
        : group(`${id}[${start + part * period}+${period}]`, spanName(members), 'part', members, signatures);
    });
    const held = sectioned(parts, `${id}[${start}*${count}]`, signatures);
    result.push(group(`${id}[${start}*${count}]`, spanName(parts), 'repeat', held, signatures));
  }
  return [...result, ...children.slice(next)];
}

/** At most `MOST_CHILDREN` nodes: longer lists are split into sections of equal length, repeatedly if necessary. */
function sectioned(children: TreeNode[], id: string, signatures: Map<string, string>): TreeNode[] {
  let list = children;
  for (let level = 0; list.length > MOST_CHILDREN; level++) {
    const size = Math.ceil(list.length / Math.ceil(list.length / MOST_CHILDREN));
    const sections: TreeNode[] = [];
    for (let start = 0; start < list.length; start += size) {
      const members = list.slice(start, start + size);
      sections.push(group(`${id}{${level}:${start}}`, spanName(members), 'section', members, signatures));
    }
    list = sections;
  }
  return list;
}

function spanName(members: readonly TreeNode[]): string {
  const first = members[0]!.name.split(' … ')[0]!;
  const last = members[members.length - 1]!.name.split(' … ').pop()!;
  return first === last ? first : `${first} … ${last}`;
}

/** The number of layers or blocks in a repeat; 1 for all other nodes. */
export function timesOf(node: TreeNode): number {
  const countOf = (child: TreeNode): number => (child.kind === 'section' ? sum(child.children.map(countOf)) : 1);
  return node.kind === 'repeat' ? sum(node.children.map(countOf)) : 1;
}

/**
 * The nodes that are open initially, chosen so that no more than `most` nodes are drawn: blocks and sections from the
 * outside in, level by level, and repeats whose content is small.
 */
export function openAtFirst(tree: LayerTree, most = 200, few = 60): Set<string> {
  const open = new Set([tree.root.id]);
  let shown = tree.root.children.length;
  for (let level: TreeNode[] = tree.root.children; level.length > 0;) {
    const folded = level.filter(node => node.kind === 'block' || node.kind === 'section');
    const fits = shown + sum(folded.map(node => node.children.length)) <= most;
    level = [];
    for (const node of folded) {
      if (fits || (node.kind === 'block' && shown + node.children.length <= most)) {
        open.add(node.id);
        shown += node.children.length;
        level.push(...node.children);
      }
    }
  }
  for (const node of shownNodes(tree, open)) {
    const inside = node.kind === 'repeat' ? within(node) : [];
    if (inside.length > 0 && shown + inside.length <= few) {
      [node, ...inside].forEach(each => each.children.length > 0 && open.add(each.id));
      shown += inside.length;
    }
  }
  return open;
}

function within(node: TreeNode): TreeNode[] {
  return node.children.flatMap(child => [child, ...within(child)]);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/**
 * The open nodes after unfolding as many as possible, from the outside in, so that at most `most` nodes are drawn.
 * `complete`: whether everything is unfolded.
 */
export function openAll(tree: LayerTree, most: number): { open: Set<string>; complete: boolean } {
  const open = new Set<string>();
  let shown = 0;
  const queue = [tree.root];
  for (let node = queue.shift(); node; node = queue.shift()) {
    if (node.children.length === 0) {
      continue;
    }
    if (shown + node.children.length > most) {
      return { open, complete: false };
    }
    open.add(node.id);
    shown += node.children.length;
    queue.push(...node.children);
  }
  return { open, complete: true };
}

/** `open` with all ancestors of a node unfolded, so that the node itself is visible. */
export function revealed(node: TreeNode, open: ReadonlySet<string>): Set<string> {
  const result = new Set(open);
  for (let at = node.parent; at; at = at.parent) {
    result.add(at.id);
  }
  return result;
}

/** The nodes to be drawn, unfolded nodes before their children; without the root. */
export function shownNodes(tree: LayerTree, open: ReadonlySet<string>): TreeNode[] {
  const shown: TreeNode[] = [];
  const visit = (node: TreeNode) => {
    shown.push(node);
    if (open.has(node.id)) {
      node.children.forEach(visit);
    }
  };
  tree.root.children.forEach(visit);
  return shown;
}

/** The visible node that represents each layer, by layer index. */
export function standsFor(tree: LayerTree, open: ReadonlySet<string>): TreeNode[] {
  const result: TreeNode[] = new Array<TreeNode>(tree.leaves.length);
  const visit = (node: TreeNode) => {
    if (node.children.length > 0 && open.has(node.id)) {
      node.children.forEach(visit);
    } else {
      node.layers.forEach(layer => (result[layer] = node));
    }
  };
  tree.root.children.forEach(visit);
  return result;
}

/**
 * The layers on all paths from one layer to another, both included; if there are none in this direction, in the
 * opposite one.
 */
export function pathBetween(tree: LayerTree, one: number, other: number): number[] {
  const { edges, layers } = tree.graph;
  const after: number[][] = layers.map(() => []);
  const before: number[][] = layers.map(() => []);
  for (const { source, target } of edges) {
    const [from, to] = [tree.index.get(source), tree.index.get(target)];
    if (from !== undefined && to !== undefined) {
      after[from]!.push(to);
      before[to]!.push(from);
    }
  }
  const between = (from: number, to: number) => {
    const forward = reached(from, after);
    return forward.has(to) ? [...reached(to, before)].filter(layer => forward.has(layer)).sort((a, b) => a - b) : [];
  };
  const there = between(one, other);
  return there.length > 0 ? there : between(other, one);
}

function reached(from: number, next: readonly number[][]): Set<number> {
  const found = new Set([from]);
  const waiting = [from];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    for (const layer of next[at]!) {
      if (!found.has(layer)) {
        found.add(layer);
        waiting.push(layer);
      }
    }
  }
  return found;
}

/** The layers whose path or class contains a string, ignoring case. */
export function findLayers(tree: LayerTree, text: string): TreeNode[] {
  const wanted = text.trim().toLowerCase();
  return wanted === ''
    ? []
    : tree.leaves.filter((_, index) => {
        const { id, kind } = tree.graph.layers[index]!;
        return id.toLowerCase().includes(wanted) || kind.toLowerCase().includes(wanted);
      });
}
