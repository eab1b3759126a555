import { JSONExt } from '@lumino/coreutils';
import React from 'react';

import type { LayerGraph, RunPlacement } from '../../../api/schema';
import type { DesignModel } from '../../../model/design';
import { messageOf } from '../../../model/errormessage';
import { openIn, withFolds } from '../../../model/foldedblocks';
import { LayerTree, treeOf } from '../../../model/layergraph';
import type { PlacementServices } from './placementservices';

/** Long-running work, one task at a time. */
export interface Work {
  /** The title of the running task; empty if none is running. */
  title: string;
  /** The reason why the last task failed. */
  problem: string;
  start: (title: string, work: (signal: AbortSignal) => Promise<void>) => void;
  cancel: () => void;
}

/** Run long tasks and report their progress, until they finish or are cancelled, or the view is closed. */
export function useWork(): Work {
  const [state, setState] = React.useState({ title: '', problem: '' });
  const running = React.useRef<AbortController | null>(null);
  React.useEffect(() => () => running.current?.abort(), []);
  const start = React.useCallback((title: string, work: (signal: AbortSignal) => Promise<void>) => {
    running.current?.abort();
    const mine = new AbortController();
    running.current = mine;
    setState({ title, problem: '' });
    const end = (problem: string) => {
      if (!mine.signal.aborted) {
        setState({ title: '', problem });
      }
    };
    work(mine.signal).then(
      () => end(''),
      (error: unknown) => end(messageOf(error))
    );
  }, []);
  const cancel = React.useCallback(() => {
    running.current?.abort();
    setState({ title: '', problem: '' });
  }, []);
  return { ...state, start, cancel };
}

/** The tree of a design's model, the same object until its graph changes, and its open nodes. */
export interface OpenTree {
  tree: LayerTree;
  open: ReadonlySet<string>;
  /** Fold and unfold, and save that in the design. */
  fold: (open: ReadonlySet<string>) => void;
  /** Unfold to show something, without saving it. */
  show: (open: ReadonlySet<string>) => void;
}

/**
 * Each view has its own open nodes: initially those that the document stores. Folding in another user's view does not
 * affect them.
 */
export function useTree(model: DesignModel, graph: LayerGraph): OpenTree {
  const [kept, setKept] = React.useState(graph);
  if (kept !== graph && !JSONExt.deepEqual(kept as never, graph as never)) {
    setKept(graph); // every change of the document parses it again
  }
  const tree = React.useMemo(() => treeOf(kept), [kept]);
  const [opened, setOpened] = React.useState<{ tree: LayerTree; open: ReadonlySet<string> }>(() => ({
    tree,
    open: openIn(tree, model.design.drawing)
  }));
  if (opened.tree !== tree) {
    // Nodes that were open and still exist stay open.
    const still = [...opened.open].filter(id => tree.nodes.has(id));
    setOpened({ tree, open: new Set([...openIn(tree, model.design.drawing), ...still]) });
  }
  const show = React.useCallback((open: ReadonlySet<string>) => setOpened({ tree, open }), [tree]);
  const fold = React.useCallback(
    (open: ReadonlySet<string>) => {
      setOpened({ tree, open });
      model.keep(draft => {
        draft.drawing = withFolds(draft.drawing, tree, open);
      });
    },
    [model, tree]
  );
  return { tree, open: opened.open, fold, show };
}

/** The placement of the layers of a run, or why it is not known. */
export function useRunPlacement(
  services: PlacementServices,
  run: string
): { placement: RunPlacement | null; problem: string } {
  const [found, setFound] = React.useState<{ run: string; placement: RunPlacement | null; problem: string }>({
    run: '',
    placement: null,
    problem: ''
  });
  React.useEffect(() => {
    let gone = false;
    if (run !== '') {
      services.runPlacement(run).then(
        placement => !gone && setFound({ run, placement, problem: '' }),
        (error: unknown) => !gone && setFound({ run, placement: null, problem: messageOf(error) })
      );
    }
    return () => {
      gone = true;
    };
  }, [services, run]);
  return found.run === run ? found : { placement: null, problem: '' };
}
