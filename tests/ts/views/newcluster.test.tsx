import { nullTranslator } from '@jupyterlab/translation';
import { act, fireEvent, render, screen, waitFor } from '@testing-library/react';
import React from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { ApiError } from '../../../src/api/rest';
import type { ClusterRequest, Preview, Problem } from '../../../src/api/schema';
import { NewCluster } from '../../../src/views/newcluster';
import { Scale } from '../../../src/views/scaleform';
import { clusterInfo, KINDS } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

function preview(problems: Problem[] = []): Preview {
  return {
    cluster_spec: { worker: ['localhost:0', 'localhost:0'] },
    tf_config: { 'worker:0': '{"task":{"type":"worker","index":0}}' },
    problems,
    hosts: [],
    script: '',
    fields: []
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

  it('shows the job script before it is submitted, if there is one', async () => {
    show(() => ({ ...preview(), script: '#SBATCH -p gpu' }));
    await settle();
    expect(screen.getByLabelText('Submitted script').textContent).toContain('#SBATCH -p gpu');
  });

  it('shows fields that the preview adds, and requests it again with their values', async () => {
    const cores = { name: 'cores', title: 'Cores of a worker', type: 'integer', default: 1, help: '' };
    const offered = { ...cores, minimum: 1, maximum: 4, choices: [], counts_hosts: false };
    const actions = show(request => ({ ...preview(), fields: request.kind === 'local' ? [offered] : [] }));
    await settle();
    await settle();
    expect(actions.preview.mock.calls.length).toBeLessThanOrEqual(2);
    fireEvent.change(screen.getByLabelText('Cores of a worker'), { target: { value: '3' } });
    await settle();
    expect(actions.preview).toHaveBeenLastCalledWith(expect.objectContaining({ options: { cores: 3 } }));
    const asked = actions.preview.mock.calls.length;
    await settle();
    expect(actions.preview).toHaveBeenCalledTimes(asked); // the fields have not changed
  });

  it('shows a preview of the cluster and starts it', async () => {
    const actions = show();
    await settle();
    expect(screen.getByLabelText('ClusterSpec').textContent).toContain('localhost:0');
    fireEvent.change(screen.getByLabelText('Name'), { target: { value: 'digits' } });
    fireEvent.change(screen.getByLabelText('Tasks of worker'), { target: { value: '4' } });
    fireEvent.click(screen.getByRole('button', { name: 'Add a job' }));
    fireEvent.change(screen.getByLabelText('Memory'), { target: { value: '1.5' } });
    const grace = screen.getByLabelText<HTMLInputElement>('Ends when nobody has been connected for');
    expect(grace.value).toBe('60'); // the default of Python and of the command line
    fireEvent.change(grace, { target: { value: '5' } });
    await settle();
    fireEvent.click(screen.getByRole('button', { name: 'Start' }));
    const request = {
      name: 'digits',
      kind: 'local',
      jobs: { worker: 4, ps: 1 },
      options: { memory_bytes: 1.5 * 2 ** 30 },
      keep: false,
      grace_s: 5
    };
    expect(actions.preview).toHaveBeenLastCalledWith(request);
    expect(actions.start).toHaveBeenCalledWith(request);
    await settle();
  });

  it('requests one preview for several keystrokes', async () => {
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
        { field: 'jobs.worker', message: 'A job must have at least 1 task, got 0', level: 'error' },
        { field: 'options.threads_per_host', message: 'More threads than cores', level: 'warning' },
        { field: '', message: 'More tasks than cores', level: 'warning' }
      ])
    );
    await settle();
    const count = screen.getByLabelText('Tasks of worker');
    expect(count.getAttribute('aria-invalid')).toBe('true');
    const described = document.getElementById(count.getAttribute('aria-describedby')!);
    expect(described?.textContent).toBe('A job must have at least 1 task, got 0');
    expect(screen.getByLabelText('Threads').getAttribute('aria-invalid')).toBe('false');
    expect(screen.getByText('More threads than cores')).toBeTruthy();
    expect(screen.getByText('More tasks than cores')).toBeTruthy();
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Start' }).disabled).toBe(true);
  });

  it('stays open with the error if the server rejects the cluster', async () => {
    const actions = show();
    actions.start.mockRejectedValue(
      new ApiError("`name` must be unused, but a cluster named 'digits' exists", 409, 'Conflict', 'name')
    );
    await settle();
    fireEvent.click(screen.getByRole('button', { name: 'Start' }));
    await settle();
    expect(screen.getByRole('alert').textContent).toBe("`name` must be unused, but a cluster named 'digits' exists");
  });

  it('lists unavailable kinds with the missing package', () => {
    show();
    const option = screen.getByRole<HTMLOptionElement>('option', { name: 'Slurm (needs dask-jobqueue)' });
    expect(option.disabled).toBe(true);
  });

  it('accepts a list as text with commas', async () => {
    const kind = {
      ...KINDS[0]!,
      kind: 'ssh',
      fields: [
        { ...KINDS[0]!.fields[0]!, name: 'hosts', title: 'Hosts', type: 'list', default: [], counts_hosts: false }
      ]
    };
    const initial = { kind: 'ssh', options: { hosts: ['ada', 'bert:2222'] } };
    const asked = vi.fn((_request: ClusterRequest) => Promise.resolve(preview()));
    const nothing = () => Promise.resolve();
    const actions = { preview: asked, start: nothing, keep: nothing, design: vi.fn(), cancel: vi.fn() };
    render(<NewCluster kinds={[kind]} initial={initial} actions={actions} trans={trans} />);
    const field = screen.getByLabelText<HTMLInputElement>('Hosts');
    expect([field.type, field.value]).toEqual(['text', 'ada, bert:2222']);
    fireEvent.change(field, { target: { value: 'ada, cleo' } });
    await settle();
    expect(asked.mock.lastCall![0].options).toEqual({ hosts: 'ada, cleo' });
  });

  it('saves a template only with a name', async () => {
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

  it('reports when a job appears twice', async () => {
    show();
    fireEvent.click(screen.getByRole('button', { name: 'Add a job' }));
    fireEvent.change(screen.getByLabelText('Name of job 2'), { target: { value: 'worker' } });
    await settle();
    expect(screen.getAllByText(/A job must appear only once/).length).toBeGreaterThan(0);
  });
});

describe('Scale', () => {
  it('scales the cluster, and stays open with the error if that is rejected', async () => {
    const onScale = vi
      .fn<(jobs: Record<string, number>) => Promise<void>>()
      .mockRejectedValueOnce(
        new ApiError('A job must have at most 64 tasks, got 99', 400, 'InvalidInput', 'jobs.worker')
      )
      .mockResolvedValueOnce();
    render(<Scale cluster={clusterInfo('digits')} trans={trans} onScale={onScale} onCancel={vi.fn()} />);
    const count = screen.getByLabelText('Tasks of worker');
    fireEvent.change(count, { target: { value: '99' } });
    fireEvent.click(screen.getByRole('button', { name: 'Scale' }));
    expect((await screen.findByRole('alert')).textContent).toBe('A job must have at most 64 tasks, got 99');
    fireEvent.change(count, { target: { value: '3' } });
    expect(screen.queryByRole('alert')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'Scale' }));
    await waitFor(() => expect(onScale).toHaveBeenLastCalledWith({ worker: 3 }));
    await waitFor(() => expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Scale' }).disabled).toBe(false));
  });
});
