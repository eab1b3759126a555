import type { ISessionContext } from '@jupyterlab/apputils';
import { NotebookModel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { describe, expect, it } from 'vitest';

import { NotebookCluster } from '../../../src/model/notebookcluster';

type Opened = (comm: { dispose: () => void }, message: { content: { data: unknown } }) => void;

/** A kernel that records the messages it gets, in order, and replies when the test calls `answer`. */
class FakeKernel {
  readonly name: string;
  readonly isDisposed = false;
  status = 'idle';
  readonly told: unknown[] = [];
  opened: Opened = () => undefined;
  answer: (status: string) => void = () => undefined;

  constructor(name = 'python3') {
    this.name = name;
  }

  registerCommTarget(target: string, opened: Opened): void {
    expect(target).toBe('jupyter_dtf:cluster');
    this.opened = opened;
  }

  requestExecute(content: { code: string; silent: boolean; user_expressions: { dtf: string } }): unknown {
    expect(content).toMatchObject({ code: '', silent: true, store_history: false, stop_on_error: false });
    const told = /^__import__\('os'\)\.environ\.update\((.*)\)$/.exec(content.user_expressions.dtf);
    this.told.push(JSON.parse(told![1]!));
    return { done: new Promise(resolve => (this.answer = status => resolve({ content: { status } }))) };
  }

  /** Chooses a cluster, as code in the kernel does. */
  choose(data: unknown): void {
    this.opened({ dispose: () => undefined }, { content: { data } });
  }
}

function notebook(kernel: FakeKernel | null, metadata: unknown = undefined) {
  const model = new NotebookModel();
  if (metadata !== undefined) {
    model.setMetadata('jupyter_dtf', metadata);
  }
  const context = {
    session: { kernel },
    specsManager: { specs: { kernelspecs: { python3: { language: 'python' }, ir: { language: 'R' } } } }
  } as unknown as ISessionContext;
  const signals = {
    kernelChanged: new Signal<ISessionContext, unknown>(context),
    connectionStatusChanged: new Signal<ISessionContext, string>(context)
  };
  Object.assign(context, signals);
  const cluster = new NotebookCluster(model, context);
  const start = (next: FakeKernel) => {
    Object.assign(context, { session: { kernel: next } });
    signals.kernelChanged.emit(undefined);
  };
  return { model, cluster, start, ...signals };
}

const said = (name: string, owned = '') => ({ JUPYTER_DTF_CLUSTER: name, JUPYTER_DTF_CLUSTER_OWNED: owned });

describe('NotebookCluster', () => {
  it('stores the cluster in the metadata, next to other entries', () => {
    const { model, cluster } = notebook(null, { note: 1 });
    let changes = 0;
    cluster.changed.connect(() => changes++);
    cluster.choose('digits');
    expect(model.getMetadata('jupyter_dtf')).toEqual({ note: 1, cluster: { name: 'digits' } });
    expect(cluster.name).toBe('digits');
    cluster.choose('digits');
    expect(changes).toBe(1);
    cluster.choose('');
    expect(model.getMetadata('jupyter_dtf')).toEqual({ note: 1 });
    const other = notebook(null);
    other.cluster.choose('digits');
    other.cluster.choose('');
    expect(other.model.getMetadata('jupyter_dtf')).toBeUndefined();
  });

  it('informs each kernel when it starts, and when another cluster is chosen', () => {
    const kernel = new FakeKernel();
    const { cluster, start, connectionStatusChanged } = notebook(kernel, { cluster: { name: 'digits' } });
    expect(kernel.told).toEqual([said('digits')]);
    cluster.choose('other');
    cluster.choose('');
    expect(kernel.told).toEqual([said('digits'), said('other'), said('')]);
    cluster.choose('digits');
    const next = new FakeKernel();
    start(next);
    expect(next.told).toEqual([said('digits')]);
    connectionStatusChanged.emit('connecting');
    connectionStatusChanged.emit('connected'); // restarted by the server
    expect(next.told).toEqual([said('digits'), said('digits')]);
  });

  it('sends a message again that was aborted because a cell failed', async () => {
    const kernel = new FakeKernel();
    notebook(kernel, { cluster: { name: 'digits' } });
    kernel.answer('aborted');
    await Promise.resolve();
    expect(kernel.told).toEqual([said('digits'), said('digits')]);
    kernel.answer('ok');
    await Promise.resolve();
    expect(kernel.told).toHaveLength(2);
  });

  it('stores the cluster that code has chosen, and tells the next kernel whether code started it', () => {
    const kernel = new FakeKernel();
    const { cluster, start } = notebook(kernel);
    kernel.choose({ name: 'local-1', owned: true });
    expect(cluster.name).toBe('local-1');
    const next = new FakeKernel();
    start(next);
    expect(next.told).toEqual([said('local-1', 'local-1')]);
    cluster.choose('digits');
    expect(next.told.at(-1)).toEqual(said('digits'));
    next.choose({ name: '', owned: false });
    expect(cluster.name).toBe('');
  });

  it('sends nothing to kernels that are not Python or have died', () => {
    const r = new FakeKernel('ir');
    const { start } = notebook(r, { cluster: { name: 'digits' } });
    expect(r.told).toEqual([]);
    const dead = new FakeKernel();
    dead.status = 'dead';
    start(dead);
    expect(dead.told).toEqual([]);
    const unknown = new FakeKernel('remote');
    start(unknown);
    expect(unknown.told).toEqual([said('digits')]);
  });

  it.each([
    [{ cluster: { name: "x'); import os #" } }],
    [{ cluster: { name: 5 } }],
    [{ cluster: 'digits' }],
    ['digits'],
    [null]
  ])('takes only valid names from metadata and messages: %j', metadata => {
    const kernel = new FakeKernel();
    const { cluster } = notebook(kernel, metadata);
    expect(cluster.name).toBe('');
    kernel.choose({ name: 'Not A Name' });
    kernel.choose(metadata);
    expect(cluster.name).toBe('');
    expect(kernel.told).toEqual([said('')]);
  });
});
