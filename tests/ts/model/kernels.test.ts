import type { Session } from '@jupyterlab/services';
import { describe, expect, it, vi } from 'vitest';

import { KernelModels } from '../../../src/model/kernels';

const model = { name: 'model', kind: 'model', type: 'Sequential', parameters: 23 };

/** Returns sessions of notebooks. `answers` has the reply of each kernel, null if it never replies. */
function sessionsOf(answers: Record<string, object | null>) {
  const dispose = vi.fn();
  const requestExecute = vi.fn();
  const manager = {
    refreshRunning: () => Promise.resolve(),
    running: () => Object.keys(answers).map(path => ({ path })),
    connectTo: (options: { model: { path: string } }) => ({
      dispose,
      kernel: {
        requestExecute: (request: object) => {
          requestExecute(request);
          const answer = answers[options.model.path];
          const done = answer
            ? Promise.resolve({ content: { status: 'ok', user_expressions: { dtf: answer } } })
            : new Promise(() => undefined);
          return { done };
        }
      }
    })
  };
  return { manager: manager as unknown as Session.IManager, dispose, requestExecute };
}

const ok = (data: unknown) => ({ status: 'ok', data: { 'application/json': data } });
const signal = () => new AbortController().signal;

describe('KernelModels', () => {
  it('lists the models of the kernels that reply in time', async () => {
    const failed = { status: 'error', ename: 'ModuleNotFoundError', evalue: 'no' };
    const { manager, dispose } = sessionsOf({ 'a.ipynb': ok([model]), 'busy.ipynb': null, 'r.ipynb': failed });
    expect(await new KernelModels(manager, 20).variables(signal())).toEqual([{ ...model, path: 'a.ipynb' }]);
    expect(dispose).toHaveBeenCalled();
  });

  it('evaluates an expression without running code, with the name as a string', async () => {
    const { manager, requestExecute } = sessionsOf({ 'a.ipynb': ok({ layers: [] }) });
    await new KernelModels(manager).describe({ path: 'a.ipynb', name: 'model' }, signal());
    const request = requestExecute.mock.calls[0]![0] as { code: string; user_expressions: { dtf: string } };
    expect(request.code).toBe('');
    expect(request.user_expressions.dtf).toMatch(/\.describe\("model", call=False\)$/);
  });

  it('calls a function only if the user has chosen it', async () => {
    const { manager, requestExecute } = sessionsOf({ 'a.ipynb': ok({}), 'b.ipynb': ok({}) });
    const kernels = new KernelModels(manager);
    const [one, other] = ['a.ipynb', 'b.ipynb'].map(path => ({ path, name: 'make' }));
    await kernels.describe(one!, signal());
    await kernels.describe(one!, signal(), true);
    await kernels.describe(one!, signal());
    await kernels.describe(other!, signal());
    await kernels.calibrate(one!, 'c', { batchSize: 64, microbatches: 8 }, signal());
    await kernels.calibrate(other!, 'c', { batchSize: 64, microbatches: 8 }, signal());
    const asked = requestExecute.mock.calls.map(
      ([request]) => (request as { user_expressions: { dtf: string } }).user_expressions.dtf
    );
    expect(asked.map(text => text.match(/call=\w+/)?.[0])).toEqual([
      'call=False',
      'call=True',
      'call=True',
      'call=False',
      'call=True',
      'call=False'
    ]);
  });

  it('rejects with the error of the kernel, or if there is no kernel', async () => {
    const { manager } = sessionsOf({ 'a.ipynb': { status: 'error', ename: 'InvalidInput', evalue: 'no model' } });
    const kernels = new KernelModels(manager);
    await expect(kernels.describe({ path: 'a.ipynb', name: 'x' }, signal())).rejects.toThrow('InvalidInput: no model');
    await expect(kernels.describe({ path: 'b.ipynb', name: 'x' }, signal())).rejects.toThrow('no running kernel');
  });

  it('can be cancelled', async () => {
    const { manager, dispose } = sessionsOf({ 'busy.ipynb': null });
    const ended = new AbortController();
    const asked = new KernelModels(manager).describe({ path: 'busy.ipynb', name: 'x' }, ended.signal);
    ended.abort(new Error('cancelled'));
    await expect(asked).rejects.toThrow('cancelled');
    expect(dispose).toHaveBeenCalled();
  });

  it('leaves no listeners at a signal that outlives its requests', async () => {
    const { signal: kept } = new AbortController();
    const listeners = new Set<unknown>();
    const [add, remove] = [kept.addEventListener.bind(kept), kept.removeEventListener.bind(kept)];
    kept.addEventListener = (type: string, listener: EventListener, options: AddEventListenerOptions) => {
      listeners.add(listener);
      options.signal?.addEventListener('abort', () => listeners.delete(listener));
      add(type, listener, options);
    };
    kept.removeEventListener = (type: string, listener: EventListener) => {
      listeners.delete(listener);
      remove(type, listener);
    };
    const { manager } = sessionsOf({ 'a.ipynb': ok({ layers: [] }) });
    await new KernelModels(manager).describe({ path: 'a.ipynb', name: 'model' }, kept);
    expect(listeners).toEqual(new Set());
  });
});
