/** Which blocks of a model are folded. A design stores only the differences from the initial state. Pure. */

import type { Design } from '../api/schema';
import { LayerTree, openAtFirst } from './layergraph';

type Drawing = Design['drawing'];

/** The open blocks of a tree when its design is opened. Blocks that no longer exist are ignored. */
export function openIn(tree: LayerTree, drawing: Drawing): Set<string> {
  const open = openAtFirst(tree);
  for (const id of idsOf(drawing['unfolded'])) {
    if ((tree.nodes.get(id)?.children.length ?? 0) > 0) {
      open.add(id);
    }
  }
  for (const id of idsOf(drawing['folded'])) {
    if (id !== tree.root.id) {
      open.delete(id);
    }
  }
  return open;
}

/** `drawing` updated with the open blocks of a tree, in the tree's order. Its other entries are kept. */
export function withFolds(drawing: Drawing, tree: LayerTree, open: ReadonlySet<string>): Drawing {
  const first = openAtFirst(tree);
  const others = Object.fromEntries(Object.entries(drawing).filter(([key]) => key !== 'folded' && key !== 'unfolded'));
  const ids = [...tree.nodes.keys()];
  const folded = ids.filter(id => first.has(id) && !open.has(id));
  const unfolded = ids.filter(id => open.has(id) && !first.has(id));
  return { ...others, ...(folded.length > 0 && { folded }), ...(unfolded.length > 0 && { unfolded }) };
}

/** The strings in a list from a file. The file may contain anything here; all other values are ignored. */
function idsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter(id => typeof id === 'string') : [];
}
