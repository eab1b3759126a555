import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { CLUSTER_NAME } from '../api/schema';

/** The key in the notebook's metadata: `{"cluster": {"name": "digits"}}`. */
const METADATA = 'jupyter_dtf';
// The same names as in `jupyter_dtf/notebook/kernel_cluster.py`.
const VARIABLE = 'JUPYTER_DTF_CLUSTER';
const OWNED_VARIABLE = 'JUPYTER_DTF_CLUSTER_OWNED';
const COMM_TARGET = 'jupyter_dtf:cluster';

/**
 * The cluster of one notebook. Its name is stored in the notebook's metadata; the kernel reads it from an environment
 * variable, and reports when code chooses another cluster. The cluster may no longer exist.
 */
export class NotebookCluster implements IDisposable {
  constructor(
    private readonly _model: INotebookModel,
    private readonly _session: ISessionContext
  ) {
    _model.metadataChanged.connect(this._onMetadata, this);
    // A new kernel, or one that was restarted from this notebook. A request made while the signal is emitted is the
    // first in the connection's queue: it is sent as soon as the kernel replies, before any cell, since nobody can run
    // cells before the signal. So the variable is set before the first cell runs.
    _session.kernelChanged.connect(this._tell, this);
    // A kernel that died and was restarted by the server, or that was restarted from elsewhere, reconnects.
    _session.connectionStatusChanged.connect(this._onConnection, this);
    this._tell();
  }

  /** Emitted when the cluster has changed or been removed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Empty if the notebook has no cluster. */
  get name(): string {
    const cluster = record(this._metadata['cluster']);
    const name = cluster['name'];
    return typeof name === 'string' && CLUSTER_NAME.test(name) ? name : '';
  }

  /** Set the notebook's cluster by name; an empty name removes it. */
  choose(name: string): void {
    this._owned = '';
    this._keep(name);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    Signal.clearData(this);
  }

  private get _metadata(): Record<string, unknown> {
    return record(this._model.getMetadata(METADATA));
  }

  private _keep(name: string): void {
    if (name === this.name) {
      return;
    }
    const others = { ...this._metadata };
    delete others['cluster'];
    if (name !== '') {
      this._model.setMetadata(METADATA, { ...others, cluster: { name } });
    } else if (Object.keys(others).length > 0) {
      this._model.setMetadata(METADATA, others);
    } else {
      this._model.deleteMetadata(METADATA);
    }
  }

  private _onMetadata(_: unknown, change: { key: string }): void {
    if (change.key === METADATA) {
      this._tell();
      this._changed.emit();
    }
  }

  private _onConnection(_: unknown, status: Kernel.ConnectionStatus): void {
    if (status === 'connected') {
      this._tell();
    }
  }

  /**
   * Send the cluster's name to the kernel, in a user expression of an empty, silent cell. The expression imports only
   * `os`, and does not affect the execution count, the output or the variables. If the kernel cannot evaluate it, the
   * error is ignored.
   */
  private _tell(): void {
    const kernel = this._session.session?.kernel;
    if (!kernel || kernel.isDisposed || kernel.status === 'dead' || !this._mayBePython(kernel)) {
      return;
    }
    kernel.registerCommTarget(COMM_TARGET, (comm, { content }) => {
      comm.dispose();
      this._onTold(content.data);
    });
    const name = this.name;
    const told = { [VARIABLE]: name, [OWNED_VARIABLE]: this._owned === name ? name : '' };
    const future = kernel.requestExecute({
      code: '',
      silent: true,
      store_history: false,
      stop_on_error: false,
      allow_stdin: false,
      // A JSON object of strings is also a valid Python dictionary.
      user_expressions: { dtf: `__import__('os').environ.update(${JSON.stringify(told)})` }
    });
    future.done.then(
      ({ content }) => {
        // The request was queued behind a cell that failed, and was aborted with the rest of the queue.
        if ((content as { status: string }).status === 'aborted' && !this._isDisposed) {
          this._tell();
        }
      },
      () => undefined // the kernel is gone or restarting: the next one will receive the name
    );
  }

  /**
   * Called when code in the kernel has chosen a cluster. `owned`: the kernel started the cluster, which stops with the
   * kernel.
   */
  private _onTold(data: unknown): void {
    const { name, owned } = record(data);
    if (!this._isDisposed && typeof name === 'string' && (name === '' || CLUSTER_NAME.test(name))) {
      this._owned = owned === true ? name : '';
      this._keep(name);
    }
  }

  private _mayBePython(kernel: Kernel.IKernelConnection): boolean {
    const language = this._session.specsManager.specs?.kernelspecs[kernel.name]?.language;
    return language === undefined || language.toLowerCase() === 'python';
  }

  private _owned = '';
  private _isDisposed = false;
  private readonly _changed = new Signal<this, void>(this);
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
