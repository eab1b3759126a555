import { nullTranslator } from '@jupyterlab/translation';
import { fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import type { ClusterInfo } from '../../../src/api/schema';
import { NotebookClusterButton } from '../../../src/views/notebookclusterbutton';
import { clusterInfo } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

function show(name: string, cluster?: ClusterInfo, ready = true) {
  const onClick = vi.fn();
  render(<NotebookClusterButton name={name} cluster={cluster} ready={ready} trans={trans} onClick={onClick} />);
  const button = screen.getByRole('button');
  return { button, onClick, text: button.textContent, says: button.getAttribute('aria-label') };
}

describe('NotebookClusterButton', () => {
  it('shows that there is no cluster, and opens the menu', () => {
    const { button, onClick, text, says } = show('');
    expect(text).toBe('No cluster');
    expect(says).toBe('This notebook has no cluster: choose or start one');
    expect(button.getAttribute('aria-haspopup')).toBe('menu');
    fireEvent.click(button);
    expect(onClick).toHaveBeenCalledExactlyOnceWith(button);
  });

  it.each<[Partial<ClusterInfo> | undefined, boolean, string]>([
    [{}, true, '2 workers'],
    [{ jobs: { worker: 1, ps: 2 } }, true, '1 worker, 2 ps'],
    [{ state: 'starting' }, true, 'starting'],
    [{ state: 'lost' }, true, 'lost'],
    [undefined, true, 'not running'],
    [undefined, false, '']
  ])('shows the state of the cluster: %j', (change, ready, words) => {
    const { text, says } = show('digits', change && clusterInfo('digits', change), ready);
    expect(text).toMatch(new RegExp(`^.?digits${words}$`, 'u'));
    expect(says).toBe(`This notebook's cluster: digits${words && `, ${words}`}`);
  });
});
