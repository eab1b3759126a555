import type { LayoutAnswer } from './graph.worker';
import type { Box, Layout } from './graphlayout';

/**
 * Lays out graphs in a worker, one at a time. A newer request cancels the previous one, whose callbacks are then never
 * called.
 */
export class Layouter {
  constructor(private readonly _make: () => Worker = makeWorker) {}

  /** `onLayout` is called with the result, `onProgress` (0 to 1) from time to time before that. */
  run(
    box: Box,
    onLayout: (layout: Layout) => void,
    onProgress: (fraction: number) => void,
    onError: (message: string) => void
  ): void {
    if (this._busy) {
      this.cancel();
    }
    const worker = (this._worker ??= this._make());
    this._busy = true;
    worker.onmessage = ({ data }: MessageEvent<LayoutAnswer>) => {
      if (data.type === 'progress') {
        onProgress(data.done / data.total);
      } else {
        this._busy = false;
        onLayout(data.layout);
      }
    };
    worker.onerror = event => {
      this.cancel();
      onError(event.message);
    };
    worker.postMessage(box);
  }

  /** Cancel the current request. */
  cancel(): void {
    this._worker?.terminate();
    this._worker = null;
    this._busy = false;
  }

  private _worker: Worker | null = null;
  private _busy = false;
}

function makeWorker(): Worker {
  return new Worker(new URL('./graph.worker.js', import.meta.url), { type: 'module' });
}
