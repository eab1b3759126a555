import { Handle, Node, NodeProps, Position } from '@xyflow/react';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { InputNode, inputTexts } from '../../../model/graphinputs';
import { itemId } from './graphnode';

export type InputNodeData = {
  node: InputNode;
  current: boolean;
  base: string;
  /** Must be the same function while the graph is shown. */
  onPick: (node: string) => void;
  trans: TranslationBundle;
};

export type InputFlowNode = Node<InputNodeData, 'modelInput'>;

const MOST_NAMES = 8;

/** An input of the model: visible and reachable by keyboard, but never selected, since it cannot be placed. */
export const InputNodeView = React.memo(function InputNodeView({ data }: NodeProps<InputFlowNode>) {
  const { node, current, base, onPick, trans } = data;
  const { name, detail } = inputTexts(node);
  return (
    <div
      id={itemId(base, node.id)}
      className={`jp-dtf-input${current ? ' jp-mod-current' : ''}`}
      role="treeitem"
      aria-level={1}
      aria-label={[name, trans._n('input', 'inputs', node.inputs.length), detail, whereTo(node, trans)]
        .filter(part => part !== '')
        .join(', ')}
      title={describeInput(node, trans)}
      onClick={event => {
        event.stopPropagation(); // prevents React Flow's own selection
        onPick(node.id);
      }}
    >
      <span className="jp-dtf-input-name">{name}</span>
      {detail !== '' && <span className="jp-dtf-input-detail">{`· ${detail}`}</span>}
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </div>
  );
});

/** The tooltip: each input in full, and the layers that use it. */
export function describeInput(node: InputNode, trans: TranslationBundle): string {
  const lines = node.inputs.map(input => {
    const { name, detail } = inputTexts({ ...node, inputs: [input] });
    return detail === '' ? name : `${name} · ${detail}`;
  });
  return [...shortened(lines), whereTo(node, trans)].join('\n');
}

function whereTo(node: InputNode, trans: TranslationBundle): string {
  const names = [...new Set(node.inputs.flatMap(input => input.targets))];
  return names.length === 0
    ? trans.__('No layer uses it')
    : trans.__('Sent to the devices of the layers that use it: %1', shortened(names).join(', '));
}

function shortened(names: readonly string[]): string[] {
  return names.length <= MOST_NAMES ? [...names] : [...names.slice(0, MOST_NAMES), `… (${names.length})`];
}
