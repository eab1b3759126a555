import type React from 'react';

import { inputNodes } from '../../../model/graphinputs';
import { LayerTree, shownNodes } from '../../../model/layergraph';

/** The state that the graph's keyboard commands read, and their callbacks. */
export interface KeyTarget {
  tree: LayerTree;
  open: ReadonlySet<string>;
  onOpen: (open: ReadonlySet<string>) => void;
  /** Ids of the tree's nodes. */
  selected: ReadonlySet<string>;
  onSelected: (selected: ReadonlySet<string>) => void;
  /** The node or input with the keyboard cursor; null before the first move. */
  current: string | null;
  onCurrent: (id: string) => void;
  /** Called when the user wants to choose a device for the selection with the keyboard. */
  onChooseDevice: () => void;
  onFind: () => void;
}

/**
 * The keys of the ARIA tree pattern: arrow keys move, unfold and fold, Enter folds and unfolds, Space selects, Shift
 * with an arrow key extends the selection; and those of this view: Ctrl+A selects everything, `d` chooses a device,
 * Ctrl+F searches, Escape clears the selection.
 */
export function moveIn(event: React.KeyboardEvent, target: KeyTarget): void {
  const act = actionOf(event, target);
  if (act) {
    event.preventDefault();
    event.stopPropagation();
    act();
  }
}

function actionOf(event: React.KeyboardEvent, target: KeyTarget): (() => void) | undefined {
  const { tree, open, onOpen, selected, onSelected, onCurrent } = target;
  if (event.altKey) {
    return undefined;
  }
  if (event.ctrlKey || event.metaKey) {
    return {
      a: () => onSelected(new Set(tree.root.children.map(node => node.id))),
      f: target.onFind
    }[event.key];
  }
  const shown = [...inputNodes(tree, open).map(({ id }) => id), ...shownNodes(tree, open).map(({ id }) => id)];
  const index = shown.indexOf(target.current ?? '');
  const isInput = index >= 0 && !tree.nodes.has(shown[index]!);
  const node = index < 0 || isInput ? undefined : tree.nodes.get(shown[index]!);
  const go = (to: number) => () => {
    const next = shown[Math.min(shown.length - 1, Math.max(0, to))];
    if (next !== undefined) {
      onCurrent(next);
      if (event.shiftKey) {
        onSelected(new Set([...selected, ...(node ? [node.id] : []), ...(tree.nodes.has(next) ? [next] : [])]));
      }
    }
  };
  const toggle = () => {
    const next = new Set(selected);
    if (node && !next.delete(node.id)) {
      next.add(node.id);
    }
    onSelected(next);
  };
  const folds = node !== undefined && node.children.length > 0;
  const setOpen = (wanted: boolean) => {
    const next = new Set(open);
    if (wanted) {
      next.add(node!.id);
    } else {
      next.delete(node!.id);
    }
    onOpen(next);
  };
  const isOpen = node !== undefined && open.has(node.id);
  return {
    ArrowDown: go(index + 1),
    ArrowUp: go(index - 1),
    Home: go(0),
    End: go(shown.length - 1),
    ArrowRight: folds && !isOpen ? () => setOpen(true) : go(index + 1),
    ArrowLeft:
      folds && isOpen
        ? () => setOpen(false)
        : () => node?.parent && node.parent !== tree.root && onCurrent(node.parent.id),
    Enter: folds ? () => setOpen(!isOpen) : toggle,
    ' ': toggle,
    Escape: selected.size > 0 ? () => onSelected(new Set()) : undefined,
    d:
      isInput && selected.size === 0
        ? undefined // an input has no device
        : () => {
            if (selected.size === 0 && node) {
              onSelected(new Set([node.id]));
            }
            target.onChooseDevice();
          }
  }[event.key];
}
