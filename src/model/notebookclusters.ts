import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { ISignal, Signal } from '@lumino/signaling';

import { NotebookCluster } from './notebookcluster';

/** The clusters of all open notebooks. */
export class NotebookClusters {
  constructor(private readonly _tracker: INotebookTracker) {
    _tracker.widgetAdded.connect((_, panel) => void this.of(panel));
    _tracker.currentChanged.connect(() => this._changed.emit());
    _tracker.forEach(panel => void this.of(panel));
  }

  /** Emitted when another notebook becomes current, and when the cluster of any notebook changes. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The cluster of the current notebook, or of the one that was current last; null if no notebook is open. */
  get current(): NotebookCluster | null {
    const panel = this._tracker.currentWidget;
    return panel ? this.of(panel) : null;
  }

  of(panel: NotebookPanel): NotebookCluster {
    let cluster = this._clusters.get(panel);
    if (!cluster) {
      const made = new NotebookCluster(panel.context.model, panel.sessionContext);
      made.changed.connect(() => this._changed.emit());
      panel.disposed.connect(() => made.dispose());
      this._clusters.set(panel, made);
      cluster = made;
    }
    return cluster;
  }

  private readonly _clusters = new WeakMap<NotebookPanel, NotebookCluster>();
  private readonly _changed = new Signal<this, void>(this);
}
