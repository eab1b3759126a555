/** A model's graph of layers as a tree of blocks that fold: by the layers' paths, by what repeats, by length. Pure. */

import type { Layer, LayerGraph } from '../api/schema';
import { repeatsOf } from './repeatedsequences';

/**
 * `layer`: one layer of the model. `block`: a container of the model's. `repeat`: blocks or layers that are alike and
 * follow each other. `part`: one of what repeats, where that is several layers. `section`: a stretch of a long list.
 */
export type NodeKind = 'layer' | 'block' | 'repeat' | 'part' | 'section';

/** What is drawn as one node while it is folded. */
export interface TreeNode {
  readonly id: string;
  readonly kind: NodeKind;
  /** The last part of its path, or its first and last child. */
  readonly name: string;
  readonly parent: TreeNode | null;
  readonly children: TreeNode[];
  /** Indices into the graph's layers, ascending. */
  readonly layers: readonly number[];
  /** Nodes of the same signature are built alike. */
  readonly signature: string;
}

/** A graph's tree, and where each layer is in it. */
export interface LayerTree {
  readonly graph: LayerGraph;
  readonly root: TreeNode;
  readonly nodes: ReadonlyMap<string, TreeNode>;
  /** The node of each layer, by the layer's index. */
  readonly leaves: readonly TreeNode[];
  /** Each layer's index, by its id. */
  readonly index: ReadonlyMap<string, number>;
}

const MOST_CHILDREN = 40;

/** The tree of a graph. No node has more than 40 children, however long the model is. */
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

/** The layers of a graph by their paths, before anything is folded. */
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
    // A layer that computes something itself and holds others: it is the first of its own block.
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
  // Signatures of blocks would double in length with each level: equal ones get an equal number instead.
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

/** At most `MOST_CHILDREN`: longer lists are cut into sections of equal length, as often as it takes. */
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

/** How many layers or blocks a repeat stands for; 1 for everything else. */
export function timesOf(node: TreeNode): number {
  const countOf = (child: TreeNode): number => (child.kind === 'section' ? sum(child.children.map(countOf)) : 1);
  return node.kind === 'repeat' ? sum(node.children.map(countOf)) : 1;
}

/**
 * Those that are open at first, such that no more than `most` nodes are drawn: blocks and sections from the outside in,
 * level by level, and repeats that are small as a whole.
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

/** All that unfolds, from the outside in, as long as no more than `most` nodes would be drawn; and whether that is all. */
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

/** `open` with all around a node unfolded, so that the node itself is shown. */
export function revealed(node: TreeNode, open: ReadonlySet<string>): Set<string> {
  const result = new Set(open);
  for (let at = node.parent; at; at = at.parent) {
    result.add(at.id);
  }
  return result;
}

/** The nodes that are drawn, unfolded ones before what is in them; the root itself is not. */
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

/** The folded nodes and layers that stand for each layer, by the layer's index. */
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

/** The layers on any way from one layer to another, both included; of none in this direction, in the other. */
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

/** The layers whose path or class holds a text, whatever its case. */
export function findLayers(tree: LayerTree, text: string): TreeNode[] {
  const wanted = text.trim().toLowerCase();
  return wanted === ''
    ? []
    : tree.leaves.filter((_, index) => {
        const { id, kind } = tree.graph.layers[index]!;
        return id.toLowerCase().includes(wanted) || kind.toLowerCase().includes(wanted);
      });
}
