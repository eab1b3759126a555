import { fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import { SmallButton } from '../../../src/views/controls';

describe('SmallButton', () => {
  it('has its text as its name, and the hint as its description', () => {
    render(
      <SmallButton hint="Measure the layers" onClick={vi.fn()}>
        Profile
      </SmallButton>
    );
    expect(screen.getByRole('button', { name: 'Profile' }).title).toBe('Measure the layers');
  });

  it('keeps the focus while it is busy, but does nothing', () => {
    const onClick = vi.fn();
    const button = (busy: boolean) => (
      <SmallButton busy={busy} onClick={onClick}>
        Place
      </SmallButton>
    );
    const { rerender } = render(button(false));
    const place = screen.getByRole<HTMLButtonElement>('button', { name: 'Place' });
    place.focus();
    fireEvent.click(place);
    rerender(button(true));
    fireEvent.click(place);
    expect(onClick).toHaveBeenCalledOnce();
    expect([document.activeElement, place.disabled, place.getAttribute('aria-disabled')]).toEqual([
      place,
      false,
      'true'
    ]);
    rerender(button(false));
    fireEvent.click(place);
    expect(onClick).toHaveBeenCalledTimes(2);
  });
});
