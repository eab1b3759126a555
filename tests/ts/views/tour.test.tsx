import { nullTranslator } from '@jupyterlab/translation';
import { fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import { popoverPosition } from '../../../src/model/popoverposition';
import { tourSteps } from '../../../src/plugins/tourplugin';
import { Tour } from '../../../src/views/tour';

const trans = nullTranslator.load('jupyter_dtf');
const steps = tourSteps(trans);
const click = (name: string) => fireEvent.click(screen.getByRole('button', { name }));

describe('Tour', () => {
  it('goes through five steps, forward and back, with the focus in each', () => {
    const end = vi.fn();
    render(<Tour steps={steps} trans={trans} onEnd={end} />);
    const seen = [];
    for (const { title, text } of steps) {
      const step = screen.getByRole('dialog', { name: title });
      expect([step.getAttribute('aria-describedby'), document.activeElement]).toEqual([
        screen.getByText(text).id,
        step
      ]);
      seen.push(title);
      if (seen.length < steps.length) {
        click('Next');
      }
    }
    expect(seen).toEqual(['Start a cluster', 'Fit a model', 'Watch the run', 'Draw a design', 'Stop']);
    click('Back');
    expect(screen.getByRole('dialog', { name: 'Draw a design' }).textContent).toContain('Step 4 of 5');
    click('Next');
    expect(end).not.toHaveBeenCalled();
    click('Done');
    expect(end).toHaveBeenCalledOnce();
  });

  it('ends with Escape and with its button', () => {
    const end = vi.fn();
    render(<Tour steps={steps} trans={trans} onEnd={end} />);
    fireEvent.keyDown(screen.getByRole('button', { name: 'Next' }), { key: 'Escape' });
    click('End tour');
    expect(end).toHaveBeenCalledTimes(2);
  });
});

describe('popoverPosition', () => {
  const size = { width: 300, height: 200 };

  it('is to the right, to the left or below, and always inside of the page', () => {
    const page = { width: 1000, height: 600 };
    expect(popoverPosition({ left: 0, top: 50, width: 250, height: 100 }, size, page)).toEqual({ left: 262, top: 50 });
    expect(popoverPosition({ left: 750, top: 590, width: 250, height: 10 }, size, page)).toEqual({
      left: 438,
      top: 392
    });
    expect(popoverPosition({ left: 0, top: 0, width: 400, height: 40 }, size, { width: 400, height: 600 })).toEqual({
      left: 8,
      top: 52
    });
  });
});
