import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { CLUSTER_NAME } from '../api/schema';

/** The key of the notebook's metadata: `{"cluster": {"name": "digits"}}`. */
const METADATA = 'jupyter_dtf';
// As `jupyter_dtf/notebook/kernel_cluster.py` has them.
const VARIABLE = 'JUPYTER_DTF_CLUSTER';
const OWNED_VARIABLE = 'JUPYTER_DTF_CLUSTER_OWNED';
const COMM_TARGET = 'jupyter_dtf:cluster';

/**
 * The cluster of one notebook. Which it is stands in the notebook's metadata; its kernel knows by an environment variable,
 * and tells when code chooses another. It need not be there any more.
 */
export class NotebookCluster implements IDisposable {
  constructor(
    private readonly _model: INotebookModel,
    private readonly _session: ISessionContext
  ) {
    _model.metadataChanged.connect(this._onMetadata, this);
    // A kernel that is new, or was restarted from this notebook. The request that is made while the signal is emitted is the
    // first that the connection is given: it waits there until the kernel answers and is sent before the cells, which
    // nobody can run before the signal. So it is there for the first cell, however soon that is run.
    _session.kernelChanged.connect(this._tell, this);
    // A kernel that has died and was restarted by the server, or from elsewhere, is connected again.
    _session.connectionStatusChanged.connect(this._onConnection, this);
    this._tell();
  }

  /** Emitted when it is another, or none. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Empty where the notebook has none. */
  get name(): string {
    const cluster = record(this._metadata['cluster']);
    const name = cluster['name'];
    return typeof name === 'string' && CLUSTER_NAME.test(name) ? name : '';
  }

  /** From now on it is the cluster of this name; none with an empty one. */
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
   * Tell the kernel. It is an expression beside an empty, silent cell: nothing is imported but `os`, nothing is counted, shown
   * or left among the variables, and a kernel that cannot evaluate it says so in an answer that nobody reads.
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
      // A JSON object of strings is a Python dictionary as well.
      user_expressions: { dtf: `__import__('os').environ.update(${JSON.stringify(told)})` }
    });
    future.done.then(
      ({ content }) => {
        // It has waited behind a cell that failed, and went with all that waited.
        if ((content as { status: string }).status === 'aborted' && !this._isDisposed) {
          this._tell();
        }
      },
      () => undefined // the kernel is gone or restarted: the next one is told
    );
  }

  /** Code in the kernel has chosen; `owned` says that it has started the cluster, which ends with the kernel. */
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
