import '@xyflow/react/dist/base.css';

import type { TranslationBundle } from '@jupyterlab/translation';
import {
  applyNodeChanges,
  Background,
  Controls,
  MiniMap,
  NodeChange,
  ReactFlow,
  ReactFlowInstance,
  ReactFlowProvider,
  useReactFlow,
  useStore,
  useStoreApi
} from '@xyflow/react';
import React from 'react';

import { InputNode, inputNodes } from '../../../model/graphinputs';
import { shownNodes, TreeNode } from '../../../model/layergraph';
import { useLayout } from './graphhooks';
import { InputFlowNode, InputNodeView } from './graphinput';
import { KeyTarget, moveIn } from './graphkeys';
import { FrameView, itemId, LayerFlowNode, LayerNodeView, NodeActions } from './graphnode';
import { DrawnEdge, Look, NODE_HEIGHT, NODE_WIDTH } from './graphappearance';
import { EDGE_TYPES, flowEdges } from './graphedge';
import type { Layout } from './graphlayout';

type GraphNode = LayerFlowNode | InputFlowNode;

const NODE_TYPES = { layer: LayerNodeView, frame: FrameView, modelInput: InputNodeView };
/** React Flow's wrappers around the tree's items must not announce themselves. */
const PLAIN = { 'aria-roledescription': undefined } as unknown as NonNullable<LayerFlowNode['domAttributes']>;
const FAR_ZOOM = 0.45;
const MIN_ZOOM = 0.05;
const MAX_ZOOM = 2;

export interface GraphProps extends KeyTarget {
  looks: ReadonlyMap<string, Look>;
  edges: readonly DrawnEdge[];
  /** Called when a node is pressed to be dragged: with the selection if it contains the node, or else the node. */
  onDrag: (nodes: ReadonlySet<string>, event: React.PointerEvent<HTMLElement>) => void;
  /** Bring this node into view; a new object for each request. */
  goTo: { node: string } | null;
  trans: TranslationBundle;
}

/** A model's layers as a graph with foldable blocks. */
export function LayerGraphView(props: GraphProps): React.ReactElement {
  return (
    <ReactFlowProvider>
      <Graph {...props} />
    </ReactFlowProvider>
  );
}

function Graph(props: GraphProps): React.ReactElement {
  const { tree, open, selected, current, goTo, trans } = props;
  const base = React.useId();
  const host = React.useRef<HTMLDivElement>(null);
  const flow = useReactFlow<GraphNode>();
  const state = useLayout(tree, open);
  const { layout } = state;
  const actions = useActions(props, host);
  const nodes = React.useMemo(
    () => (layout ? flowNodes(props, state.shownOpen, layout, base, actions) : []),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- only these of the props are drawn
    [tree, layout, props.looks, selected, current, base, actions, trans]
  );
  const inputs = React.useMemo(
    () => (layout ? inputFlowNodes(props, inputNodes(tree, state.shownOpen), layout, base, actions) : []),
    // eslint-disable-next-line react-hooks/exhaustive-deps -- as above
    [tree, layout, current, base, actions, trans]
  );
  const drawn = React.useMemo<GraphNode[]>(() => [...inputs, ...nodes], [inputs, nodes]);
  const edges = React.useMemo(() => (layout ? flowEdges(props.edges, tree, layout) : []), [props.edges, tree, layout]);
  const fit = useFit(flow, layout);
  useGoTo(flow, goTo, layout, fit.moved);
  useKeepInView(flow, current);
  const onNodesChange = (changes: NodeChange<GraphNode>[]) => {
    if (changes.some(change => change.type === 'select')) {
      const next = applyNodeChanges(changes, drawn).filter(node => node.selected);
      props.onSelected(new Set(next.map(node => node.id)));
    }
  };
  return (
    <div className="jp-dtf-graph" onPointerDownCapture={fit.moved}>
      <div
        ref={host}
        className="jp-dtf-graph-keys"
        role="tree"
        aria-multiselectable="true"
        aria-label={trans.__('Layers of %1', tree.graph.model)}
        aria-activedescendant={current !== null ? itemId(base, current) : undefined}
        aria-owns={drawn.map(node => itemId(base, node.id)).join(' ')}
        tabIndex={0}
        onKeyDown={event => moveIn(event, props)}
        onFocus={() => current === null && tree.root.children[0] && props.onCurrent(tree.root.children[0].id)}
      />
      <ReactFlow
        nodes={drawn}
        edges={edges}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        onNodesChange={onNodesChange}
        onMoveStart={event => event && fit.moved()}
        onPaneClick={() => host.current?.focus({ preventScroll: true })}
        minZoom={MIN_ZOOM}
        maxZoom={MAX_ZOOM}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        disableKeyboardA11y
        deleteKeyCode={null}
        selectionKeyCode="Shift"
        multiSelectionKeyCode={null}
        zoomOnDoubleClick={false}
        onlyRenderVisibleElements
        elevateEdgesOnSelect={false}
      >
        <Background />
        <Zoomed host={host} />
        <Controls showInteractive={false} onFitView={fit.fitted} aria-label={trans.__('Zoom')} />
        <MiniMap
          pannable
          zoomable
          ariaLabel={trans.__('Overview of the whole graph')}
          style={{ width: 150, height: 100 }}
          nodeColor={node => miniColour(node as GraphNode)}
        />
      </ReactFlow>
      {state.progress !== null && (
        <div className="jp-dtf-graph-busy" role="status">
          <progress value={state.progress} aria-label={trans.__('Laying out the graph')} />
          {trans.__('Laying out…')}
          <button type="button" className="jp-dtf-link" onClick={state.cancel}>
            {trans.__('Cancel')}
          </button>
        </div>
      )}
      {state.problem !== '' && (
        <p className="jp-dtf-problem jp-dtf-graph-busy">
          {trans.__('The graph could not be laid out: %1', state.problem)}
        </p>
      )}
    </div>
  );
}

function miniColour({ type, data }: GraphNode): string {
  if (type === 'frame' || !('look' in data)) {
    return 'var(--jp-layout-color2)';
  }
  return data.look.shares[0]?.colour ?? 'var(--jp-border-color1)';
}

/** Small text is omitted when zoomed out. */
function Zoomed({ host }: { host: React.RefObject<HTMLElement> }): null {
  const far = useStore(state => state.transform[2] < FAR_ZOOM);
  React.useEffect(() => {
    host.current?.parentElement?.classList.toggle('jp-mod-far', far);
  }, [host, far]);
  return null;
}

/**
 * The callbacks of the nodes. They remain the same objects while the view exists, so that they do not cause nodes to be
 * re-rendered.
 */
function useActions(props: GraphProps, host: React.RefObject<HTMLElement>): NodeActions {
  const latest = React.useRef(props);
  React.useEffect(() => {
    latest.current = props;
  });
  return React.useMemo(
    () => ({
      pick: (node, extend) => {
        const { selected, onSelected, onCurrent } = latest.current;
        const next = new Set(extend ? selected : []);
        if (extend && selected.has(node.id)) {
          next.delete(node.id);
        } else {
          next.add(node.id);
        }
        onSelected(next);
        onCurrent(node.id);
        host.current?.focus({ preventScroll: true });
      },
      go: id => {
        latest.current.onCurrent(id);
        host.current?.focus({ preventScroll: true });
      },
      fold: node => {
        const { open, onOpen, onCurrent } = latest.current;
        onOpen(toggled(open, node));
        onCurrent(node.id);
      },
      press: (node, event) => {
        const { selected, onDrag } = latest.current;
        onDrag(selected.has(node.id) ? selected : new Set([node.id]), event);
      }
    }),
    [host]
  );
}

/** `open` with a node folded or unfolded; the state of its contents is kept. */
export function toggled(open: ReadonlySet<string>, node: TreeNode): Set<string> {
  const next = new Set(open);
  if (!next.delete(node.id) && node.children.length > 0) {
    next.add(node.id);
  }
  return next;
}

function flowNodes(
  props: GraphProps,
  open: ReadonlySet<string>,
  { places }: Layout,
  base: string,
  actions: NodeActions
): LayerFlowNode[] {
  const { tree, selected, current, looks, trans } = props;
  const levels = new Map<TreeNode, number>([[tree.root, 0]]);
  return shownNodes(tree, open).flatMap(node => {
    const [place, look] = [places[node.id], looks.get(node.id)];
    if (!place || !look) {
      return []; // the layout is not ready
    }
    const level = levels.get(node.parent!)! + 1;
    levels.set(node, level);
    const isOpen = open.has(node.id) && node.children.length > 0;
    const layer = node.kind === 'layer' ? tree.graph.layers[node.layers[0]!]! : null;
    const made: LayerFlowNode = {
      id: node.id,
      type: isOpen ? 'frame' : 'layer',
      position: { x: place.x, y: place.y },
      width: place.width,
      height: place.height,
      selected: selected.has(node.id),
      selectable: !isOpen,
      data: { node, layer, look, open: isOpen, current: node.id === current, level, base, actions, trans },
      domAttributes: PLAIN,
      style: { pointerEvents: isOpen ? 'none' : 'all' }
    };
    if (node.parent !== tree.root) {
      made.parentId = node.parent!.id;
    }
    return [made];
  });
}

function inputFlowNodes(
  props: GraphProps,
  inputs: readonly InputNode[],
  { places }: Layout,
  base: string,
  actions: NodeActions
): InputFlowNode[] {
  const { current, trans } = props;
  return inputs.flatMap(node => {
    const place = places[node.id];
    return place
      ? {
          id: node.id,
          type: 'modelInput' as const,
          position: { x: place.x, y: place.y },
          width: place.width,
          height: place.height,
          selectable: false,
          data: { node, current: node.id === current, base, onPick: actions.go, trans },
          domAttributes: PLAIN,
          style: { pointerEvents: 'all' as const }
        }
      : []; // the layout is not ready
  });
}

/** Fit the whole graph into the view at first and whenever the view is resized, until the user interacts with it. */
function useFit(flow: ReactFlowInstance<GraphNode>, layout: Layout | null): { moved: () => void; fitted: () => void } {
  const moved = React.useRef(false);
  const room = useStore(state => `${state.width} ${state.height}`);
  const ready = layout !== null;
  React.useEffect(() => {
    if (!ready || moved.current) {
      return;
    }
    const frame = requestAnimationFrame(() => void flow.fitView({ padding: 0.06, maxZoom: 1.1 }));
    return () => cancelAnimationFrame(frame);
  }, [flow, ready, room]);
  return React.useMemo(() => ({ moved: () => (moved.current = true), fitted: () => (moved.current = false) }), []);
}

/** Bring a node into view for each new `request`, once it is laid out. */
function useGoTo(
  flow: ReactFlowInstance<GraphNode>,
  request: { node: string } | null,
  layout: Layout | null,
  moved: () => void
): void {
  const done = React.useRef<{ node: string } | null>(null);
  React.useEffect(() => {
    const node = request === null || done.current === request ? undefined : flow.getInternalNode(request.node);
    if (!node) {
      return;
    }
    done.current = request;
    moved();
    const { x, y } = node.internals.positionAbsolute;
    const zoom = Math.max(flow.getZoom(), 0.8);
    const [width, height] = [node.width ?? NODE_WIDTH, node.height ?? NODE_HEIGHT];
    void flow.setCenter(x + width / 2, y + Math.min(height, 200) / 2, { zoom, duration: 150 });
  }, [flow, request, layout, moved]);
}

/** Pan, without zooming, if the keyboard cursor is outside the view. */
function useKeepInView(flow: ReactFlowInstance<GraphNode>, current: string | null): void {
  const store = useStoreApi();
  React.useEffect(() => {
    const node = current === null ? undefined : flow.getInternalNode(current);
    if (!node) {
      return;
    }
    const { transform, width, height } = store.getState();
    const zoom = transform[2];
    const { x, y } = node.internals.positionAbsolute;
    const [left, top] = [x * zoom + transform[0], y * zoom + transform[1]];
    const [nodeWidth, nodeHeight] = [(node.width ?? NODE_WIDTH) * zoom, NODE_HEIGHT * zoom];
    if (left < 0 || top < 0 || left + nodeWidth > width || top + nodeHeight > height) {
      void flow.setCenter(x + nodeWidth / zoom / 2, y + NODE_HEIGHT / 2, { zoom });
    }
  }, [flow, store, current]);
}
