import React from 'react';

import type { LayerTree } from '../../../model/layergraph';
import type { Layout } from './graphlayout';
import { Layouter } from './graphlayouter';
import { boxOf } from './graphappearance';

/** How far a layout is. */
export interface LayoutState {
  /** null before the first has come. */
  layout: Layout | null;
  /** The nodes that were open in what `layout` holds. */
  shownOpen: ReadonlySet<string>;
  /** 0 to 1 while a layout goes on for long enough to be told of, else null. */
  progress: number | null;
  problem: string;
  cancel: () => void;
}

const TOLD_AFTER_MS = 300;

/** Lay out a tree in the background whenever it, or what is open in it, changes. Until then the older one stays. */
export function useLayout(tree: LayerTree, open: ReadonlySet<string>): LayoutState {
  const [layouter] = React.useState(() => new Layouter());
  const [state, setState] = React.useState<Omit<LayoutState, 'cancel'>>({
    layout: null,
    shownOpen: open,
    progress: null,
    problem: ''
  });
  React.useEffect(() => () => layouter.cancel(), [layouter]);
  React.useEffect(() => {
    const timer = setTimeout(() => setState(old => ({ ...old, progress: 0 })), TOLD_AFTER_MS);
    layouter.run(
      boxOf(tree, open),
      layout => {
        clearTimeout(timer);
        setState({ layout, shownOpen: open, progress: null, problem: '' });
      },
      progress => setState(old => (old.progress === null ? old : { ...old, progress })),
      problem => {
        clearTimeout(timer);
        setState(old => ({ ...old, progress: null, problem }));
      }
    );
    return () => clearTimeout(timer);
  }, [layouter, tree, open]);
  const cancel = React.useCallback(() => {
    layouter.cancel();
    setState(old => ({ ...old, progress: null }));
  }, [layouter]);
  return { ...state, cancel };
}
