import { nullTranslator } from '@jupyterlab/translation';
import { act, fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { ApiError } from '../../../src/api/rest';
import type { ClusterRequest, Preview, Problem } from '../../../src/api/schema';
import { NewCluster } from '../../../src/views/newcluster';
import { Scale } from '../../../src/views/scale';
import { clusterInfo, KINDS } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

function preview(problems: Problem[] = []): Preview {
  return {
    cluster_spec: { worker: ['localhost:0', 'localhost:0'] },
    tf_config: { 'worker:0': '{"task":{"type":"worker","index":0}}' },
    problems,
    hosts: []
  };
}

describe('NewCluster', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const settle = () => act(() => vi.advanceTimersByTimeAsync(300));

  function show(answer: (request: ClusterRequest) => Preview = () => preview()) {
    const actions = {
      preview: vi.fn((request: ClusterRequest) => Promise.resolve(answer(request))),
      start: vi.fn(() => Promise.resolve()),
      keep: vi.fn(() => Promise.resolve()),
      design: vi.fn(),
      cancel: vi.fn()
    };
    render(<NewCluster kinds={KINDS} actions={actions} trans={trans} />);
    return actions;
  }

  it('shows what it will make and starts it', async () => {
    const actions = show();
    await settle();
    expect(screen.getByLabelText('ClusterSpec').textContent).toContain('localhost:0');
    fireEvent.change(screen.getByLabelText('Name'), { target: { value: 'digits' } });
    fireEvent.change(screen.getByLabelText('Tasks of worker'), { target: { value: '4' } });
    fireEvent.click(screen.getByRole('button', { name: 'Add a job' }));
    fireEvent.change(screen.getByLabelText('Memory'), { target: { value: '1.5' } });
    await settle();
    fireEvent.click(screen.getByRole('button', { name: 'Start' }));
    const request = {
      name: 'digits',
      kind: 'local',
      jobs: { worker: 4, ps: 1 },
      options: { memory_bytes: 1.5 * 2 ** 30 },
      keep: false
    };
    expect(actions.preview).toHaveBeenLastCalledWith(request);
    expect(actions.start).toHaveBeenCalledWith(request);
    await settle();
  });

  it('asks once for what is typed in one go', async () => {
    const actions = show();
    for (const value of ['d', 'di', 'dig']) {
      fireEvent.change(screen.getByLabelText('Name'), { target: { value } });
    }
    await settle();
    expect(actions.preview).toHaveBeenCalledOnce();
  });

  it('shows each problem at its field and does not start', async () => {
    show(() =>
      preview([
        { field: 'jobs.worker', message: 'A job has at least 1 task. Received: 0', level: 'error' },
        { field: 'options.threads_per_host', message: 'More threads than cores', level: 'warning' },
        { field: '', message: 'More tasks than cores', level: 'warning' }
      ])
    );
    await settle();
    const count = screen.getByLabelText('Tasks of worker');
    expect(count.getAttribute('aria-invalid')).toBe('true');
    const described = document.getElementById(count.getAttribute('aria-describedby')!);
    expect(described?.textContent).toBe('A job has at least 1 task. Received: 0');
    expect(screen.getByLabelText('Threads').getAttribute('aria-invalid')).toBe('false');
    expect(screen.getByText('More threads than cores')).toBeTruthy();
    expect(screen.getByText('More tasks than cores')).toBeTruthy();
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Start' }).disabled).toBe(true);
  });

  it('stays with what the server says when it refuses', async () => {
    const actions = show();
    actions.start.mockRejectedValue(new ApiError('The name is taken. Received: digits', 409, 'Conflict', 'name'));
    await settle();
    fireEvent.click(screen.getByRole('button', { name: 'Start' }));
    await settle();
    expect(screen.getByRole('alert').textContent).toBe('The name is taken. Received: digits');
  });

  it('lists kinds that are not available with what they lack', () => {
    show();
    const option = screen.getByRole<HTMLOptionElement>('option', { name: 'Slurm (needs dask-jobqueue)' });
    expect(option.disabled).toBe(true);
  });

  it('keeps a template only under a name', async () => {
    const actions = show();
    await settle();
    fireEvent.click(screen.getByRole('button', { name: 'Save as template' }));
    expect(actions.keep).not.toHaveBeenCalled();
    expect(screen.getByRole('alert').textContent).toBe('A template needs a name.');
    fireEvent.change(screen.getByLabelText('Name'), { target: { value: 'digits' } });
    await settle();
    fireEvent.click(screen.getByRole('button', { name: 'Save as template' }));
    await settle();
    expect(actions.keep).toHaveBeenCalledWith('digits', expect.objectContaining({ name: 'digits' }));
  });

  it('says when a job is there twice', async () => {
    show();
    fireEvent.click(screen.getByRole('button', { name: 'Add a job' }));
    fireEvent.change(screen.getByLabelText('Name of job 2'), { target: { value: 'worker' } });
    await settle();
    expect(screen.getAllByText(/A job appears once/).length).toBeGreaterThan(0);
  });
});

describe('Scale', () => {
  it('scales, and stays with the problem when that is refused', async () => {
    const onScale = vi
      .fn<(jobs: Record<string, number>) => Promise<void>>()
      .mockRejectedValueOnce(new ApiError('Too many. Received: 99', 400, 'InvalidInput', 'jobs.worker'))
      .mockResolvedValueOnce();
    render(<Scale cluster={clusterInfo('digits')} trans={trans} onScale={onScale} onCancel={vi.fn()} />);
    const count = screen.getByLabelText('Tasks of worker');
    fireEvent.change(count, { target: { value: '99' } });
    fireEvent.click(screen.getByRole('button', { name: 'Scale' }));
    expect((await screen.findByRole('alert')).textContent).toBe('Too many. Received: 99');
    fireEvent.change(count, { target: { value: '3' } });
    expect(screen.queryByRole('alert')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'Scale' }));
    await vi.waitFor(() => expect(onScale).toHaveBeenLastCalledWith({ worker: 3 }));
    await vi.waitFor(() =>
      expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Scale' }).disabled).toBe(false)
    );
  });
});
