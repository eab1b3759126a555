import { BaseEdge, BezierEdge, Edge, EdgeProps, getBezierPath, MarkerType } from '@xyflow/react';
import React from 'react';

import { formatBytes } from '../../../model/format';
import type { LayerTree } from '../../../model/layergraph';
import type { Layout, Point } from './graphlayout';
import type { DrawnEdge } from './graphappearance';

// Where the label of an edge into a frame is placed: in the gap between its source and the frame.
const BELOW_SOURCE_PX = 11;
const SIDEWAYS = 0.1;

type RoutedEdge = Edge<{ points: Point[] }>;

const ARROW = { type: MarkerType.ArrowClosed, color: 'var(--jp-dtf-edge)' };
const CUT_ARROW = {
  type: MarkerType.ArrowClosed,
  color: 'var(--jp-ui-font-color1)',
  markerUnits: 'userSpaceOnUse',
  width: 22,
  height: 22
};

/** An edge routed around the nodes between its ends. */
const RoutedEdgeView = React.memo(function RoutedEdgeView(props: EdgeProps<RoutedEdge>) {
  const { data, sourceX, sourceY, targetX, targetY, label, style, markerEnd } = props;
  const inner = data!.points.slice(1, -1);
  const path = curve([{ x: sourceX, y: sourceY }, ...inner, { x: targetX, y: targetY }]);
  const middle = inner[Math.floor(inner.length / 2)]!;
  return (
    <BaseEdge
      path={path}
      labelX={middle.x}
      labelY={middle.y}
      {...(label === undefined ? {} : { label })}
      {...(style ? { style } : {})}
      {...(markerEnd ? { markerEnd } : {})}
    />
  );
});

/**
 * An edge that leads into a frame: its midpoint would be on the frame's title, so its label is placed below its source.
 */
const EnteringEdgeView = React.memo(function EnteringEdgeView(props: EdgeProps) {
  const { sourceX, sourceY, targetX, label, style, markerEnd } = props;
  const [path] = getBezierPath(props);
  return (
    <BaseEdge
      path={path}
      labelX={sourceX + SIDEWAYS * (targetX - sourceX)}
      labelY={sourceY + BELOW_SOURCE_PX}
      {...(label === undefined ? {} : { label })}
      {...(style ? { style } : {})}
      {...(markerEnd ? { markerEnd } : {})}
    />
  );
});

export const EDGE_TYPES = { default: BezierEdge, entering: EnteringEdgeView, routed: RoutedEdgeView };

/** The number of frames that enclose a node. */
function depthOf(id: string, tree: LayerTree): number {
  let depth = 0;
  for (let node = tree.nodes.get(id)?.parent; node; node = node.parent) {
    depth += 1;
  }
  return depth;
}

/** The edges in React Flow's format; those that cross between devices are thick and labeled with their bytes. */
export function flowEdges(edges: readonly DrawnEdge[], tree: LayerTree, layout: Layout): Edge[] {
  const drawn = edges.filter(({ source, target }) => layout.places[source] && layout.places[target]);
  return drawn.map(({ id, source, target, cut }) => {
    const route = layout.routes[id];
    const base = {
      id,
      source,
      target,
      selectable: false,
      markerEnd: cut > 0 ? CUT_ARROW : ARROW,
      ...(route
        ? { type: 'routed', data: { points: absolute(route.points, route.box, tree, layout) } }
        : depthOf(target, tree) > depthOf(source, tree)
          ? { type: 'entering' }
          : {})
    };
    return cut > 0
      ? {
          ...base,
          className: 'jp-dtf-cut',
          label: formatBytes(cut),
          style: { strokeWidth: Math.min(9, 2.5 + Math.log2(1 + cut / 1024) / 2) }
        }
      : base;
  });
}

function absolute(points: readonly Point[], box: string, tree: LayerTree, layout: Layout): Point[] {
  let [x, y] = [0, 0];
  for (let node = tree.nodes.get(box); node?.parent; node = node.parent) {
    x += layout.places[node.id]?.x ?? 0;
    y += layout.places[node.id]?.y ?? 0;
  }
  return points.map(point => ({ x: point.x + x, y: point.y + y }));
}

/** A smooth path near points: quadratic curves between the midpoints, with the points as control points. */
function curve(points: readonly Point[]): string {
  const [first, ...rest] = points;
  const parts = rest.slice(0, -1).map((point, index) => {
    const next = rest[index + 1]!;
    return `Q${point.x} ${point.y} ${(point.x + next.x) / 2} ${(point.y + next.y) / 2}`;
  });
  const last = rest[rest.length - 1]!;
  return `M${first!.x} ${first!.y}${parts.join('')}L${last.x} ${last.y}`;
}
