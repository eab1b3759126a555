import { nullTranslator } from '@jupyterlab/translation';
import { fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import { expect, it, vi } from 'vitest';

import { StatusLine } from '../../../src/views/statusline';
import { clusterInfo, runInfo } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

function show(change: Partial<React.ComponentProps<typeof StatusLine>>) {
  const [onCluster, onRun] = [vi.fn(), vi.fn()];
  const props = { name: 'digits', cluster: clusterInfo('digits'), run: null, trans, onCluster, onRun };
  const { container } = render(<StatusLine health="ok" {...props} {...change} />);
  return { onCluster, onRun, container };
}

it('shows the cluster and its run, and opens both', () => {
  const { onCluster, onRun, container } = show({ run: { run: runInfo('a'), others: 2 } });
  fireEvent.click(
    screen.getByRole('button', { name: "The notebook's cluster: digits, 2 workers. Show clusters and runs" })
  );
  expect(onCluster).toHaveBeenCalledOnce();
  const run = screen.getByRole('button', {
    name: 'Open the dashboard of name-a, running, 58%, loss 0.031, and 2 other runs'
  });
  fireEvent.click(run);
  expect(onRun).toHaveBeenCalledExactlyOnceWith('a');
  expect(screen.getByRole('progressbar', { hidden: true }).getAttribute('aria-valuenow')).toBe('58');
  expect(container.textContent).toContain('58% · loss 0.031');
});

it('shows the state of the cluster and the run', () => {
  show({ cluster: undefined });
  show({
    cluster: clusterInfo('digits', { state: 'starting' }),
    run: { run: runInfo('a', { state: 'failed' }), others: 0 }
  });
  const names = screen.getAllByRole('button').map(button => button.getAttribute('aria-label'));
  expect(names[0]).toMatch(/digits, not running/);
  expect(names[1]).toMatch(/digits, starting/);
  expect(names[2]).toBe('Open the dashboard of name-a, failed, loss 0.031');
  expect(screen.queryByRole('progressbar', { hidden: true })).toBeNull();
});

it.each(['missing', 'stale', 'foreign', 'refused', 'blocked'] as const)('links to the advice: %s', health => {
  const { onCluster } = show({ health, name: '' });
  fireEvent.click(screen.getByRole('button', { name: /is not working. Click to see what to do/ }));
  expect(onCluster).toHaveBeenCalledOnce();
});

it('is empty without a cluster', () => {
  expect(show({ name: '', cluster: undefined }).container.textContent).toBe('');
  expect(show({ health: 'offline', name: '', cluster: undefined }).container.textContent).toBe('');
});
