import React from 'react';

import type { LayerTree } from '../../../model/layergraph';
import type { Layout } from './graphlayout';
import { Layouter } from './graphlayouter';
import { boxOf } from './graphappearance';

/** The state of a layout. */
export interface LayoutState {
  /** null until the first one is ready. */
  layout: Layout | null;
  /** The nodes that are open in `layout`. */
  shownOpen: ReadonlySet<string>;
  /** 0 to 1 while a layout takes long enough to show its progress, otherwise null. */
  progress: number | null;
  problem: string;
  cancel: () => void;
}

const TOLD_AFTER_MS = 300;

/** Lay out a tree in the background whenever it or its open nodes change. The previous layout remains until then. */
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
