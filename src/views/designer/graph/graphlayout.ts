/** The layout of a folded graph: each open block is laid out separately, from the inside out. Pure. */

import { Graph, layout } from '@dagrejs/dagre';

/** A box to be drawn, either with a size of its own, or as large as its children require. */
export interface Box {
  id: string;
  /** px; computed for a box with children. */
  width: number;
  height: number;
  children: Box[];
  /** Between children, from source index to target index. */
  edges: [number, number][];
}

/** px, relative to the enclosing box. */
export interface Place {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

/** The positions of all boxes. */
export interface Layout {
  /** Keyed by box id. */
  places: Record<string, Place>;
  /** The routes of edges around other boxes, by `edgeId`; relative to the box that contains both ends. */
  routes: Record<string, { box: string; points: Point[] }>;
}

/** The id of the edge between two visible nodes. */
export function edgeId(source: string, target: string): string {
  return `${source} → ${target}`;
}

const HEADER = 34;
const PADDING = 14;
const BESIDE = 28;
const BETWEEN = 34;
const COLUMN_GAP = 60;
/** An edge from one rank to the next has this many points: its ends and one between them. */
const NEAR_POINTS = 3;
/** Levels up to this height stay in one column, px. */
const HIGH = 700;
/** Preferred ratio of width to height, since screens are wider than they are high. */
const WIDER = 1.3;

/** Lay out a box and its contents. `onBox` is called after each box with the number of boxes done. */
export function layoutOf(root: Box, onBox: (done: number) => void = () => undefined): Layout {
  const { places, routes }: Layout = { places: {}, routes: {} };
  let done = 0;
  const visit = (box: Box): { width: number; height: number } => {
    if (box.children.length === 0) {
      return box;
    }
    const sizes = box.children.map(visit);
    const made = level(sizes, box.edges);
    const broken = columns(made.places);
    const top = PADDING + (box === root ? 0 : HEADER);
    let [right, bottom] = [0, 0];
    (broken ?? made.places).forEach((place, index) => {
      places[box.children[index]!.id] = { ...place, x: place.x + PADDING, y: place.y + top };
      right = Math.max(right, place.x + place.width);
      bottom = Math.max(bottom, place.y + place.height);
    });
    if (!broken) {
      made.routes.forEach(({ edge: [source, target], points }) => {
        const moved = points.map(({ x, y }) => ({ x: x + PADDING, y: y + top }));
        right = Math.max(right, ...points.map(({ x }) => x));
        routes[edgeId(box.children[source]!.id, box.children[target]!.id)] = { box: box.id, points: moved };
      });
    }
    done += 1;
    onBox(done);
    return { width: right + 2 * PADDING, height: bottom + top + PADDING };
  };
  const whole = visit(root);
  places[root.id] = { x: 0, y: 0, width: whole.width, height: whole.height };
  return { places, routes };
}

/** The number of boxes to lay out. */
export function countBoxes(box: Box): number {
  return box.children.length === 0 ? 0 : box.children.reduce((sum, child) => sum + countBoxes(child), 1);
}

/** Arrange boxes in ranks from top to bottom, so that edges point down, and route edges around other boxes. */
function level(
  sizes: readonly { width: number; height: number }[],
  edges: readonly [number, number][]
): { places: Place[]; routes: { edge: [number, number]; points: Point[] }[] } {
  const graph = new Graph();
  graph.setGraph({ rankdir: 'TB', nodesep: BESIDE, ranksep: BETWEEN });
  graph.setDefaultEdgeLabel(() => ({}));
  sizes.forEach(({ width, height }, index) => graph.setNode(String(index), { width, height }));
  edges.forEach(([source, target]) => graph.setEdge(String(source), String(target)));
  layout(graph);
  const places = sizes.map(({ width, height }, index) => {
    const { x, y } = graph.node(String(index)) as Point;
    return { x: x - width / 2, y: y - height / 2, width, height };
  });
  const routes = edges.map(edge => ({
    edge,
    points: (graph.edge(String(edge[0]), String(edge[1])) as { points: Point[] }).points
  }));
  return { places, routes: routes.filter(({ points }) => points.length > NEAR_POINTS) };
}

/** Break a long, thin layout into columns that are read one after the other; null for any other layout. */
function columns(places: readonly Place[]): Place[] | null {
  const width = Math.max(...places.map(place => place.x + place.width));
  const height = Math.max(...places.map(place => place.y + place.height));
  const count = Math.round(Math.sqrt((WIDER * height) / (width + COLUMN_GAP)));
  if (height < HIGH || count < 2) {
    return null;
  }
  const columnOf = (place: Place) => Math.min(count - 1, Math.floor(((place.y + place.height / 2) / height) * count));
  const tops = Array.from({ length: count }, (_, column) =>
    Math.min(...places.filter(place => columnOf(place) === column).map(place => place.y))
  );
  return places.map(place => {
    const column = columnOf(place);
    return { ...place, x: place.x + column * (width + COLUMN_GAP), y: place.y - tops[column]! };
  });
}
