import { nullTranslator } from '@jupyterlab/translation';
import { fireEvent, render, screen, within } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import type { TraceData } from '../../../src/api/schema';
import { Profiling, Timeline } from '../../../src/views/tracetimeline';
import { traceData } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

const NONE: Profiling = { profile: null, onProfile: null, refused: '' };

function show(
  trace: TraceData | null | undefined,
  problem = '',
  onReload: (() => void) | null = null,
  profiling: Profiling = NONE
) {
  return render(
    <Timeline
      trace={trace}
      problem={problem}
      tasks={['worker:0', 'worker:1']}
      downloadUrl="/trace.json"
      onReload={onReload}
      profiling={profiling}
      trans={trans}
    />
  );
}

/** Returns the tooltips of the drawn operations and transfers. */
function drawn(container: HTMLElement): string[] {
  return [...container.querySelectorAll('.jp-dtf-timeline-op title, .jp-dtf-timeline-transfer title')].map(
    title => title.textContent ?? ''
  );
}

describe('Timeline', () => {
  it('draws each device with its operations, and transfers with their bytes', () => {
    const { container } = show(traceData());
    expect([...container.querySelectorAll('.jp-dtf-timeline-name')].map(name => name.firstChild?.textContent)).toEqual([
      'ps:0 CPU:0',
      'worker:0 CPU:0',
      'worker:1 GPU:0'
    ]);
    expect(drawn(container)).toContain('relu (Relu), step 3, 40 µs');
    expect(drawn(container)).toContain('weights, 2.5 KiB, step 3, 4 µs');
    expect(screen.getByRole('link', { name: 'Save the trace' }).getAttribute('href')).toBe('/trace.json');
  });

  it('has the same data in tables', () => {
    show(traceData());
    const totals = screen.getByRole('table', { name: 'Where the time goes' });
    expect(within(totals).getByRole('row', { name: 'worker:0 CPU:0 MatMul 2 30 µs' })).toBeTruthy();
    const transfers = screen.getByRole('table', { name: 'Transfers between tasks' });
    expect(within(transfers).getByRole('row', { name: 'weights ps:0 worker:0 3 2.5 KiB 4 µs' })).toBeTruthy();
  });

  it('names operations that did not run where they were placed', () => {
    show(traceData());
    expect(screen.getByText(/^⚠ 1 operation did not run/)).toBeTruthy();
    expect(screen.getByText(/^folded \(MatMul\)/)).toBeTruthy();
  });

  it('shows a single step on request', () => {
    const { container } = show(traceData());
    fireEvent.change(screen.getByRole('combobox', { name: 'step' }), { target: { value: '4' } });
    expect(drawn(container)).toEqual(['late (Sum), step 4, 5 µs']);
    expect(screen.queryByRole('table', { name: 'Transfers between tasks' })).toBeNull();
  });

  it('can be moved with keys and buttons', () => {
    show(traceData());
    const chart = screen.getByRole('group', { name: 'Timeline of 3 devices, from 0 s to 205 µs' });
    fireEvent.keyDown(chart, { key: '+' });
    expect(chart.getAttribute('aria-label')).toBe('Timeline of 3 devices, from 34.2 µs to 171 µs');
    fireEvent.keyDown(chart, { key: 'ArrowRight' });
    expect(chart.getAttribute('aria-label')).toBe('Timeline of 3 devices, from 47.8 µs to 184 µs');
    fireEvent.click(screen.getByRole('button', { name: 'Show the whole timeline' }));
    expect(chart.getAttribute('aria-label')).toBe('Timeline of 3 devices, from 0 s to 205 µs');
    fireEvent.keyDown(chart, { key: 'ArrowLeft', altKey: true });
    expect(chart.getAttribute('aria-label')).toBe('Timeline of 3 devices, from 0 s to 205 µs');
  });

  it('zooms with the wheel while Ctrl is held', () => {
    const { container } = show(traceData());
    const chart = screen.getByRole('group', { name: /^Timeline of/ });
    expect(fireEvent.wheel(chart, { deltaY: -300, clientX: 130 })).toBe(true);
    expect(chart.getAttribute('aria-label')).toContain('from 0 s to 205 µs');
    expect(fireEvent.wheel(chart, { deltaY: -300, clientX: 130, ctrlKey: true })).toBe(false);
    expect(chart.getAttribute('aria-label')).toContain('from 0 s to 75.4 µs');
    expect(drawn(container)).not.toContain('late (Sum), step 4, 5 µs');
  });

  it('shows how to get a trace if there is none', () => {
    const reload = vi.fn();
    show(null, '', reload);
    expect(screen.getByText(/cluster\.fit\(model, x, y, trace_steps=\(10, 12\)\)/)).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Check again' }));
    expect(reload).toHaveBeenCalledOnce();
  });

  it('can trace the next steps of a run in progress, with or without an earlier trace', () => {
    for (const trace of [null, traceData()]) {
      const onProfile = vi.fn();
      const { unmount } = show(trace, '', null, { ...NONE, onProfile });
      fireEvent.click(screen.getByRole('button', { name: 'Profile' }));
      expect(onProfile).toHaveBeenCalledOnce();
      expect(screen.getByRole('status').textContent).toBe('');
      unmount();
    }
    const { unmount } = show(null);
    expect(screen.queryByRole('button', { name: 'Profile' })).toBeNull();
    unmount();
  });

  it('shows that steps are being traced, or why none were', () => {
    const profile = { number: 1, steps: 3, done: false, message: '' };
    const { unmount } = show(null, '', null, { profile, onProfile: vi.fn(), refused: '' });
    expect(screen.getByRole('status').textContent).toBe('Tracing the next 3 steps…');
    expect(screen.getByRole('button', { name: 'Profile' }).getAttribute('aria-disabled')).toBe('true');
    unmount();
    const over = { ...profile, done: true, message: 'The run has ended before' };
    const shown = show(traceData(), '', null, { profile: over, onProfile: null, refused: '' });
    expect(screen.getByRole('status').textContent).toBe('No step was traced: The run has ended before');
    shown.unmount();
    show(null, '', null, { ...NONE, onProfile: vi.fn(), refused: 'It is paused' });
    expect(screen.getByRole('status').textContent).toBe('No step was traced: It is paused');
  });

  it('shows that it is looking for a trace, and errors', () => {
    show(undefined);
    expect(screen.getByRole('status').textContent).toBe('Looking for a trace…');
    show(null, 'It is gone');
    expect(screen.getByText('The trace could not be read: It is gone')).toBeTruthy();
  });

  it('draws operations that are too narrow to be seen once per pixel', () => {
    const [op] = traceData().ops;
    const ops = Array.from({ length: 5000 }, (_, index) => ({ ...op!, start_us: index, duration_us: 0.5 }));
    const { container } = show(traceData({ ops, transfers: [] }));
    const count = container.querySelectorAll('.jp-dtf-timeline-op').length;
    expect(count).toBeGreaterThan(500);
    expect(count).toBeLessThan(1000);
  });
});
