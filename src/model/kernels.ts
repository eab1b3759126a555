import type { Kernel, Session } from '@jupyterlab/services';

import type { Calibration, LayerGraph } from '../api/schema';

/** A variable of a running kernel from which a model can be read. */
export interface KernelVariable {
  /** The notebook or console that the kernel belongs to. */
  path: string;
  name: string;
  /** `model`, or `function`: a function without arguments that returns a model. */
  kind: 'model' | 'function';
  /** Its class; empty for a function. */
  type: string;
  parameters: number;
}

const MODULE = "__import__('jupyter_dtf.notebook.designing', fromlist=['models'])";
const KEY = 'dtf';

/** Finds the Keras models of running Python kernels. Queries kernels through user expressions of an empty cell. */
export class KernelModels {
  constructor(
    private readonly _sessions: Session.IManager,
    private readonly _timeoutMs = 5000
  ) {}

  private readonly _chosen = new Set<string>();

  /** The variables of all kernels that reply in time. Busy kernels do not reply. */
  async variables(signal: AbortSignal): Promise<KernelVariable[]> {
    await this._sessions.refreshRunning();
    const found = await Promise.all(
      [...this._sessions.running()].map(async session => {
        const timed = AbortSignal.any([signal, AbortSignal.timeout(this._timeoutMs)]);
        try {
          const list = (await this._ask(session, 'models()', timed)) as Omit<KernelVariable, 'path'>[];
          return list.map(variable => ({ ...variable, path: session.path }));
        } catch {
          return []; // the kernel is not a Python kernel, does not have this package, or is busy
        }
      })
    );
    signal.throwIfAborted();
    return found.flat();
  }

  /**
   * The layers of a variable. Rejects with the kernel's own error.
   *
   * A function is called only if the user has `chosen` it on this page, now or earlier, never merely because a design
   * names it.
   */
  async describe(
    variable: Pick<KernelVariable, 'path' | 'name'>,
    signal: AbortSignal,
    chosen = false
  ): Promise<LayerGraph> {
    if (chosen) {
      this._chosen.add(key(variable));
    }
    const session = await this._session(variable.path);
    const call = `describe(${JSON.stringify(variable.name)}, ${this._call(variable)})`;
    return (await this._ask(session, call, signal)) as LayerGraph;
  }

  /** Measure a variable's layers on a running cluster, with steps of this size. Rejects with the kernel's own error. */
  async calibrate(
    variable: Pick<KernelVariable, 'path' | 'name'>,
    cluster: string,
    step: { batchSize: number; microbatches: number },
    signal: AbortSignal
  ): Promise<Calibration> {
    const session = await this._session(variable.path);
    const words = [variable.name, cluster].map(word => JSON.stringify(word));
    const call = `calibrate(${words.join(', ')}, ${step.batchSize}, ${step.microbatches}, ${this._call(variable)})`;
    return (await this._ask(session, call, signal)) as Calibration;
  }

  private _call(variable: Pick<KernelVariable, 'path' | 'name'>): string {
    return this._chosen.has(key(variable)) ? 'call=True' : 'call=False';
  }

  private async _session(path: string): Promise<Session.IModel> {
    await this._sessions.refreshRunning();
    const session = [...this._sessions.running()].find(other => other.path === path);
    if (!session) {
      throw new Error(`${path} has no running kernel: open it and run the cells that make the model`);
    }
    return session;
  }

  private async _ask(session: Session.IModel, call: string, signal: AbortSignal): Promise<unknown> {
    const connection = this._sessions.connectTo({ model: session });
    const end = () => connection.dispose();
    signal.addEventListener('abort', end, { once: true });
    try {
      const kernel = connection.kernel;
      if (!kernel) {
        throw new Error(`${session.path} has no kernel`);
      }
      return await evaluate(kernel, `${MODULE}.${call}`, signal);
    } finally {
      signal.removeEventListener('abort', end);
      end();
    }
  }
}

function key(variable: Pick<KernelVariable, 'path' | 'name'>): string {
  return JSON.stringify([variable.path, variable.name]);
}

async function evaluate(kernel: Kernel.IKernelConnection, expression: string, signal: AbortSignal): Promise<unknown> {
  const future = kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    user_expressions: { [KEY]: expression }
  });
  signal.throwIfAborted();
  const answered = new AbortController(); // a signal may outlive many requests
  const aborted = new Promise<never>((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true, signal: answered.signal })
  );
  const { content } = await Promise.race([future.done, aborted]).finally(() => answered.abort());
  const answer = (content as { user_expressions?: Record<string, Expression> }).user_expressions?.[KEY];
  if (answer?.status !== 'ok') {
    throw new Error(answer ? `${answer.ename}: ${answer.evalue}` : 'The kernel did not respond');
  }
  return answer.data['application/json'];
}

type Expression = { status: 'ok'; data: Record<string, unknown> } | { status: 'error'; ename: string; evalue: string };
