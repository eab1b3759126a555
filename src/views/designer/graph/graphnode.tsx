import { Handle, Node, NodeProps, Position } from '@xyflow/react';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Layer } from '../../../api/schema';
import { formatBytes, formatNumber } from '../../../model/format';
import { deviceName } from '../../../model/layerplacement';
import { timesOf, TreeNode } from '../../../model/layergraph';
import type { Look, Share } from './graphappearance';

/** The callbacks of a node; they must be the same functions while the graph is shown. */
export interface NodeActions {
  /** Select a node and its layers, after a click. */
  pick(node: TreeNode, extend: boolean): void;
  fold(node: TreeNode): void;
  /** Move the keyboard cursor, after a click on something that cannot be selected. */
  go(id: string): void;
  /** Called when the pointer is pressed on a node, which may be dragged to a device. */
  press(node: TreeNode, event: React.PointerEvent<HTMLElement>): void;
}

export type LayerNodeData = {
  node: TreeNode;
  layer: Layer | null;
  look: Look;
  open: boolean;
  current: boolean;
  level: number;
  /** The prefix of element ids, unique to the view. */
  base: string;
  actions: NodeActions;
  trans: TranslationBundle;
};

export type LayerFlowNode = Node<LayerNodeData>;

/** A layer, or a folded block. */
export const LayerNodeView = React.memo(function LayerNodeView({ data, selected }: NodeProps<LayerFlowNode>) {
  const { node, layer, look, trans } = data;
  return (
    <Item data={data} selected={selected} className="jp-dtf-layer nopan">
      <Handle type="target" position={Position.Top} isConnectable={false} />
      <Shares shares={look.shares} />
      <div className="jp-dtf-layer-name">
        <span>{node.name}</span>
        {timesOf(node) > 1 && <small>{trans.__('%1 times', timesOf(node))}</small>}
        {!layer && <Fold data={data} />}
      </div>
      <div className="jp-dtf-layer-detail">
        <span>{layer ? layer.kind : trans._n('%1 layer', '%1 layers', node.layers.length)}</span>
        {look.differ > 0 && <span className="jp-dtf-layer-differs">≠ {look.differ}</span>}
        {look.split && <span title={trans.__('Split over several devices')}>⫴</span>}
        {look.pinned && (
          <svg className="jp-dtf-pin" viewBox="0 0 12 12" role="presentation">
            <title>{trans.__('Pinned: automatic placement does not move it')}</title>
            <path d="M4 0h4v1L7.5 1.6V5L9.5 7v1h-3v3.2L6 12l-.5-.8V8h-3V7l2-2V1.6L4 1z" />
          </svg>
        )}
        <span className="jp-dtf-number">{formatBytes(look.memoryBytes)}</span>
      </div>
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </Item>
  );
});

/** An unfolded block: a frame around its contents. */
export const FrameView = React.memo(function FrameView({ data, selected }: NodeProps<LayerFlowNode>) {
  const { node, look, trans } = data;
  return (
    <div className="jp-dtf-frame">
      <Item data={data} selected={selected} className="jp-dtf-frame-head nopan">
        <Shares shares={look.shares} />
        <div className="jp-dtf-layer-name">
          <span>{node.name}</span>
          {timesOf(node) > 1 && <small>{trans.__('%1 times', timesOf(node))}</small>}
          <Fold data={data} />
        </div>
      </Item>
    </div>
  );
});

function Item(props: {
  data: LayerNodeData;
  selected: boolean;
  className: string;
  children: React.ReactNode;
}): React.ReactElement {
  const { data, selected, className } = props;
  const { node, look, actions } = data;
  const heat = look.heat === null ? {} : { '--jp-dtf-heat': `${Math.round(8 + 72 * look.heat)}%` };
  const only = look.shares.length === 1 ? look.shares[0]!.colour : null;
  return (
    <div
      id={itemId(data.base, node.id)}
      className={`${className}${data.current ? ' jp-mod-current' : ''}${look.heat === null ? '' : ' jp-mod-heat'}`}
      style={{ ...heat, ...(only ? { '--jp-dtf-task': only } : {}) } as React.CSSProperties}
      role="treeitem"
      aria-level={data.level}
      aria-selected={selected}
      aria-expanded={node.children.length > 0 ? data.open : undefined}
      aria-label={describeNode(data)}
      data-selected={selected}
      data-placed={look.shares.every(share => share.device !== null)}
      onClick={event => {
        event.stopPropagation(); // prevents React Flow's own selection
        actions.pick(node, event.shiftKey || event.ctrlKey || event.metaKey);
      }}
      onDoubleClick={event => {
        event.stopPropagation();
        actions.fold(node);
      }}
      onPointerDown={event => actions.press(node, event)}
    >
      {props.children}
    </div>
  );
}

/** The id of a node's element. Layer names may contain spaces, which would separate a list of ids. */
export function itemId(base: string, node: string): string {
  return `${base}-${encodeURIComponent(node)}`;
}

/** A node's description: `encoder, 4 times, block of 12 layers, worker:0 CPU:0`. */
export function describeNode({ node, layer, look, trans }: LayerNodeData): string {
  const what = layer ? layer.kind : trans._n('block of %1 layer', 'block of %1 layers', node.layers.length);
  const times = timesOf(node) > 1 ? [trans.__('%1 times', timesOf(node))] : [];
  const places = look.shares.map(share => (share.device === null ? trans.__('not placed') : deviceName(share.device)));
  return [node.name, ...times, what, places.slice(0, 4).join(' + ')].join(', ');
}

function Fold({ data }: { data: LayerNodeData }): React.ReactElement {
  const { node, open, actions, trans } = data;
  return (
    <button
      type="button"
      className="jp-dtf-fold"
      tabIndex={-1} // with the keyboard: Enter on the node
      aria-hidden="true"
      title={open ? trans.__('Collapse') : trans.__('Expand')}
      onPointerDown={event => event.stopPropagation()}
      onDoubleClick={event => event.stopPropagation()}
      onClick={event => {
        event.stopPropagation();
        actions.fold(node);
      }}
    >
      {open ? '▾' : '▸'}
    </button>
  );
}

/** A bar at the left edge: the devices of its layers, in proportion. */
function Shares({ shares }: { shares: readonly Share[] }): React.ReactElement {
  return (
    <div className="jp-dtf-shares" aria-hidden="true">
      {shares.map(share => (
        <span
          key={share.device ?? ''}
          style={{ flexGrow: share.part, ...(share.colour ? { background: share.colour } : {}) }}
          title={share.device ? `${deviceName(share.device)}, ${formatNumber(100 * share.part)}%` : undefined}
        />
      ))}
    </div>
  );
}
