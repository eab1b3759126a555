import { nullTranslator } from '@jupyterlab/translation';
import { act, fireEvent, render, screen, within } from '@testing-library/react';
import React from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { SmallButton } from '../../../../src/views/controls';
import { OverflowBar } from '../../../../src/views/designer/overflowbar';

const trans = nullTranslator.load('jupyter_dtf');
const BUTTON = 100;

/** The width of the bar, because jsdom has no layout. */
let width: number;
let resized: (() => void)[];
const onPlace = vi.fn();

beforeEach(() => {
  resized = [];
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockImplementation(() => width);
  vi.spyOn(HTMLElement.prototype, 'getBoundingClientRect').mockImplementation(() => new DOMRect(0, 0, BUTTON, 22));
  vi.stubGlobal(
    'ResizeObserver',
    class {
      constructor(callback: () => void) {
        resized.push(callback);
      }
      observe(): void {}
      disconnect(): void {}
    }
  );
});

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

function bar(): React.ReactElement {
  return (
    <OverflowBar
      label="Bar"
      trans={trans}
      controls={[
        { id: 'model', stays: Infinity, element: <SmallButton onClick={vi.fn()}>Model</SmallButton> },
        { id: 'place', stays: 2, element: <SmallButton onClick={onPlace}>Place</SmallButton> },
        {
          id: 'colour',
          stays: 1,
          element: (
            <label>
              color by
              <select>
                <option>device</option>
              </select>
            </label>
          )
        }
      ]}
    />
  );
}

const buttons = () =>
  screen.getAllByRole('button').map(button => button.getAttribute('aria-label') ?? button.textContent);
const more = () => screen.getByRole('button', { name: 'More controls' });

describe('OverflowBar', () => {
  it('has all controls if there is room, without a menu button', () => {
    width = 3 * BUTTON + 2 * 8;
    render(bar());
    expect(buttons()).toEqual(['Model', 'Place']);
    expect(screen.getByLabelText('color by')).toBeTruthy();
  });

  it('adapts to its width', () => {
    width = 3 * BUTTON + 2 * 8 - 1;
    render(bar());
    expect(buttons()).toEqual(['Model', 'More controls']);
    width += 1;
    act(() => resized.forEach(callback => callback()));
    expect(buttons()).toEqual(['Model', 'Place']);
  });

  it('has a menu of the controls that do not fit, which the keyboard can open and close', () => {
    width = 250;
    render(bar());
    expect(screen.queryByLabelText('color by')).toBeNull();
    expect(more().getAttribute('aria-expanded')).toBe('false');
    fireEvent.click(more()); // as Enter does
    const list = screen.getByRole('group', { name: 'More controls' });
    const place = within(list).getByRole('button', { name: 'Place' });
    expect(document.activeElement).toBe(place);
    expect(within(list).getByLabelText('color by')).toBeTruthy();

    fireEvent.keyDown(within(list).getByLabelText('color by'), { key: 'Escape' });
    expect(screen.queryByRole('group')).toBeNull();
    expect(document.activeElement).toBe(more());

    fireEvent.click(more());
    fireEvent.click(screen.getByLabelText('color by')); // it stays open while a value is chosen
    fireEvent.click(screen.getByRole('button', { name: 'Place' }));
    expect(onPlace).toHaveBeenCalledTimes(1);
    expect(screen.queryByRole('group')).toBeNull();

    fireEvent.click(more());
    fireEvent.pointerDown(document.body);
    expect(screen.queryByRole('group')).toBeNull();
    fireEvent.click(more());
    act(() => screen.getByRole('button', { name: 'Model' }).focus());
    expect(screen.queryByRole('group')).toBeNull();
  });

  it('keeps the focus when the focused control moves into the menu', () => {
    width = 1000;
    render(bar());
    screen.getByRole('button', { name: 'Place' }).focus();
    width = 250;
    act(() => resized.forEach(callback => callback()));
    expect(screen.queryByRole('button', { name: 'Place' })).toBeNull();
    expect(document.activeElement).toBe(screen.getByRole('toolbar'));
  });
});
