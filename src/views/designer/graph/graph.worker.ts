/** Computes the layout in a worker thread. Sent a `Box`, it replies with progress messages and finally the layout. */

import { Box, countBoxes, Layout, layoutOf } from './graphlayout';

export type LayoutAnswer = { type: 'progress'; done: number; total: number } | { type: 'layout'; layout: Layout };

const EVERY_MS = 100;

/** The part of a dedicated worker's global scope that is used here; only the page's types are loaded. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<Box>) => void) | null;
  postMessage(answer: LayoutAnswer): void;
}

const scope = self as unknown as WorkerScope;

scope.onmessage = ({ data: box }) => {
  const total = countBoxes(box);
  let told = performance.now();
  const layout = layoutOf(box, done => {
    if (performance.now() - told > EVERY_MS) {
      told = performance.now();
      scope.postMessage({ type: 'progress', done, total });
    }
  });
  scope.postMessage({ type: 'layout', layout });
};
