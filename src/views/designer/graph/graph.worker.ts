/** The layout, beside the page's own thread. Told a `Box`, it answers with progress and then with where all stands. */

import { Box, countBoxes, Layout, layoutOf } from './graphlayout';

export type LayoutAnswer = { type: 'progress'; done: number; total: number } | { type: 'layout'; layout: Layout };

const EVERY_MS = 100;

/** What a dedicated worker has of the global scope; the page's own types are the only ones loaded. */
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
