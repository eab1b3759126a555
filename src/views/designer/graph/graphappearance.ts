/**
 * The drawing of a folded graph: boxes to lay out, edges between visible nodes, and the color of each node. Pure.
 */

import type { Design } from '../../../api/schema';
import { InputNode, inputNodes, inputTexts } from '../../../model/graphinputs';
import { LayerTree, standsFor, TreeNode } from '../../../model/layergraph';
import { memoryOf, placesOf, timesOfLayers } from '../../../model/layerplacement';
import { taskOf } from '../../../model/trace';
import { Box, edgeId } from './graphlayout';

export const NODE_WIDTH = 196;
export const NODE_HEIGHT = 50;
const INPUT_HEIGHT = 26;
const MOST_INPUT_WIDTH = 240;
/** Width of a character in an input, and of the padding around its text, px. */
const LETTER = 5.8;
const AROUND_TEXT = 28;

/** The quantity that the nodes' colors encode. */
export type ColourBy = 'device' | 'memory' | 'time';

/** An edge between two visible nodes; it represents all edges of the graph between their contents. */
export interface DrawnEdge {
  id: string;
  source: string;
  target: string;
  /** Bytes that cross between devices in the forward pass of one microbatch; 0 if none do. */
  cut: number;
}

/** The part of a node's layers that is on one device; `colour` is null for unplaced layers. */
export interface Share {
  device: string | null;
  colour: string | null;
  /** Fraction of the node's layers, from 0 to 1. */
  part: number;
}

/** The appearance of a node. */
export interface Look {
  shares: readonly Share[];
  /** Its value relative to the largest visible one, 0 to 1; null if the color encodes the device. */
  heat: number | null;
  memoryBytes: number;
  /** Seconds or FLOPs per step. */
  time: number;
  pinned: boolean;
  split: boolean;
  /**
   * Number of layers that the overlaid run executed elsewhere than planned, or planned differently than they are drawn.
   */
  differ: number;
}

/** The boxes of a graph in which these nodes are open. */
export function boxOf(tree: LayerTree, open: ReadonlySet<string>): Box {
  const boxes = new Map<TreeNode, Box>();
  const visit = (node: TreeNode): Box => {
    const children = open.has(node.id) ? node.children.map(visit) : [];
    const box = { id: node.id, width: NODE_WIDTH, height: NODE_HEIGHT, children, edges: [] };
    boxes.set(node, box);
    return box;
  };
  const root = visit(tree.root);
  const places = new Map<TreeNode, number>();
  const depths = new Map<TreeNode, number>([[tree.root, 0]]);
  for (const node of boxes.keys()) {
    node.children.forEach((child, index) => places.set(child, index));
  }
  const depthOf = (node: TreeNode): number => {
    const depth = depths.get(node) ?? depthOf(node.parent!) + 1;
    depths.set(node, depth);
    return depth;
  };
  const drawn = new Map<Box, Set<number>>();
  const stands = standsFor(tree, open);
  for (const { source, target } of tree.graph.edges) {
    let [from, to] = [stands[tree.index.get(source) ?? -1], stands[tree.index.get(target) ?? -1]];
    if (!from || !to || from === to) {
      continue;
    }
    while (depthOf(from) > depthOf(to)) {
      from = from.parent!;
    }
    while (depthOf(to) > depthOf(from)) {
      to = to.parent!;
    }
    while (from.parent !== to.parent) {
      [from, to] = [from.parent!, to.parent!];
    }
    const box = boxes.get(from.parent!)!;
    const [one, other] = [places.get(from)!, places.get(to)!];
    const seen = drawn.get(box) ?? drawn.set(box, new Set()).get(box)!;
    const key = one * box.children.length + other;
    if (one !== other && !seen.has(key)) {
      seen.add(key);
      box.edges.push([one, other]);
    }
  }
  // In reverse: dagre puts the last of several nodes with the same targets on the left.
  for (const node of open.has(tree.root.id) ? inputNodes(tree, open).reverse() : []) {
    const from = root.children.push({ ...inputSize(node), id: node.id, children: [], edges: [] }) - 1;
    const to = new Set(node.targets.map(target => places.get(outermost(target, tree))!));
    root.edges.push(...[...to].map((place): [number, number] => [from, place]));
  }
  return root;
}

function inputSize(node: InputNode): { width: number; height: number } {
  const { name, detail } = inputTexts(node);
  return {
    width: Math.min(MOST_INPUT_WIDTH, Math.ceil(AROUND_TEXT + LETTER * (name.length + detail.length + 3))),
    height: INPUT_HEIGHT
  };
}

/** The node itself, or its outermost enclosing block. */
function outermost(node: TreeNode, tree: LayerTree): TreeNode {
  let at = node;
  while (at.parent && at.parent !== tree.root) {
    at = at.parent;
  }
  return at;
}

/**
 * The edges between visible nodes and from the inputs. `cuts`: bytes that cross between devices on each of the graph's
 * edges.
 */
export function drawnEdges(tree: LayerTree, open: ReadonlySet<string>, cuts: readonly number[]): DrawnEdge[] {
  const found = new Map<string, DrawnEdge>();
  const stands = standsFor(tree, open);
  tree.graph.edges.forEach(({ source, target }, index) => {
    const [from, to] = [stands[tree.index.get(source) ?? -1], stands[tree.index.get(target) ?? -1]];
    if (!from || !to || from === to) {
      return;
    }
    const id = edgeId(from.id, to.id);
    const edge = found.get(id) ?? { id, source: from.id, target: to.id, cut: 0 };
    edge.cut += cuts[index] ?? 0;
    found.set(id, edge);
  });
  const taken = inputNodes(tree, open).flatMap(({ id: source, targets }) =>
    targets.map(({ id: target }) => ({ id: edgeId(source, target), source, target, cut: 0 }))
  );
  return [...found.values(), ...taken];
}

/** The appearance of each node of a tree, by id. `differing`: layers for which a run differs. */
export function looksOf(
  tree: LayerTree,
  design: Design,
  shown: readonly TreeNode[],
  open: ReadonlySet<string>,
  colourBy: ColourBy,
  colours: ReadonlyMap<string, string>,
  differing: ReadonlySet<string>
): Map<string, Look> {
  const { layers } = tree.graph;
  const { placement, run } = design;
  const pinned = new Set(placement.pinned);
  const { times } = timesOfLayers(design, layers);
  const looks = new Map<string, Look>();
  for (const node of shown) {
    const counts = new Map<string | null, number>();
    const look = { memoryBytes: 0, time: 0, pinned: true, split: false, differ: 0 };
    for (const index of node.layers) {
      const layer = layers[index]!;
      const places = placesOf(placement, layer.id);
      (places.length > 0 ? places : [null]).forEach(device =>
        counts.set(device, (counts.get(device) ?? 0) + 1 / Math.max(1, places.length))
      );
      look.memoryBytes += memoryOf(layer, run.batch_size);
      look.time += times[index]!;
      look.pinned &&= pinned.has(layer.id);
      look.split ||= places.length > 1;
      look.differ += differing.has(layer.id) ? 1 : 0;
    }
    const shares = [...counts].map(([device, count]) => ({
      device,
      colour: device === null ? null : (colours.get(taskOf(device)) ?? '#999999'),
      part: count / node.layers.length
    }));
    looks.set(node.id, { ...look, shares, heat: null });
  }
  if (colourBy !== 'device') {
    const value = (look: Look) => (colourBy === 'memory' ? look.memoryBytes : look.time);
    const drawn = shown.filter(node => !open.has(node.id)).map(node => looks.get(node.id)!);
    const most = drawn.reduce((largest, look) => Math.max(largest, value(look)), 0);
    drawn.forEach(look => (look.heat = most > 0 ? value(look) / most : 0));
  }
  return looks;
}
