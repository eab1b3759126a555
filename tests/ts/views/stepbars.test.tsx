import { nullTranslator } from '@jupyterlab/translation';
import { render, screen, within } from '@testing-library/react';
import React from 'react';
import { describe, expect, it } from 'vitest';

import type { TaskStep } from '../../../src/model/stepparts';
import { StepParts } from '../../../src/views/stepbars';

const trans = nullTranslator.load('jupyter_dtf');
const SLOW: TaskStep = {
  task: 'worker:0',
  parts: { compute: 0.02, input: 0.07, exchange: 0.01, wait: 0, checkpoint: 0 },
  seconds: 0.1,
  slow: true
};
const OTHER: TaskStep = {
  task: 'worker:1',
  parts: { compute: 0.02, input: 0, exchange: 0.01, wait: 0.07, checkpoint: 0 },
  seconds: 0.1,
  slow: false
};
const shown = (steps: TaskStep[], slow: Record<string, string> = {}) =>
  render(<StepParts steps={steps} slow={slow} trans={trans} />);

describe('StepParts', () => {
  it('draws a bar for each task, and marks the one that the others wait for', () => {
    shown([SLOW, OTHER]);
    const bars = screen.getAllByRole('img');
    expect(bars.map(bar => bar.getAttribute('aria-label'))).toEqual([
      'worker:0: computing 20 ms (20%), waiting for the batch 70 ms (70%), exchanging 10 ms (10%)',
      'worker:1: computing 20 ms (20%), exchanging 10 ms (10%), waiting for other tasks 70 ms (70%)'
    ]);
    const parts = [...bars[0]!.querySelectorAll<HTMLElement>('.jp-dtf-part')];
    expect(parts.map(({ dataset, style }) => [dataset.part, Math.round(parseFloat(style.width))])).toEqual([
      ['compute', 20],
      ['input', 70],
      ['exchange', 10]
    ]);
    const rows = bars.map(bar => bar.closest('li')!);
    expect(rows.map(row => within(row).queryByText('the others wait for it') !== null)).toEqual([true, false]);
    expect(rows.map(row => row.dataset.slow)).toEqual(['true', undefined]);
    expect(screen.queryByText('taking checkpoints')).toBeNull();
  });

  it('marks a task that the run reports as slow', () => {
    shown([OTHER], { 'worker:1': 'It needs twice as long' });
    expect(screen.getByText('the others wait for it').title).toBe('It needs twice as long');
  });

  it('shows that the exchange is not measured', () => {
    shown([{ task: 'chief:0', parts: { compute: 0.1, input: 0 }, seconds: 0.1, slow: false }]);
    expect(screen.getByText(/communication is not measured separately but counted as computing/)).toBeTruthy();
  });

  it('shows the tasks with the longest work of their own if there are many, and nothing without tasks', () => {
    const many = Array.from({ length: 30 }, (_, index) => ({ ...OTHER, task: `worker:${index}` }));
    shown([...many, { ...SLOW, task: 'worker:30' }]);
    expect(screen.getAllByRole('img')).toHaveLength(24);
    expect(screen.getAllByRole('img')[0]!.getAttribute('aria-label')).toContain('worker:30: computing');
    expect(screen.getByText('24 of 31 tasks: those whose own work takes longest.')).toBeTruthy();
    expect(shown([]).container.textContent).toBe('');
  });
});
