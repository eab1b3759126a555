import { render, screen } from '@testing-library/react';
import React from 'react';
import { expect, it } from 'vitest';

import { useFollowingFocus } from '../../../../src/views/designer/focusrestoration';

function Part(props: { place: 'left' | 'right' | 'none' }): React.ReactElement {
  const focus = useFollowingFocus();
  const chip = <button data-what="chip">chip</button>;
  return (
    <>
      <div {...focus} tabIndex={-1} data-testid="part">
        <ul>{props.place === 'left' && chip}</ul>
        <ol>{props.place === 'right' && chip}</ol>
      </div>
      <button>elsewhere</button>
    </>
  );
}

it('follows an element that is rendered elsewhere, and stays in the part when the element is gone', () => {
  const { rerender } = render(<Part place="left" />);
  const before = screen.getByText('chip');
  before.focus();
  rerender(<Part place="right" />);
  expect(document.activeElement).toBe(screen.getByText('chip'));
  expect(document.activeElement).not.toBe(before);
  rerender(<Part place="none" />);
  expect(document.activeElement).toBe(screen.getByTestId('part'));
});

it('does not take the focus back from another element', () => {
  const { rerender } = render(<Part place="left" />);
  screen.getByText('chip').focus();
  screen.getByText('elsewhere').focus();
  rerender(<Part place="right" />);
  expect(document.activeElement).toBe(screen.getByText('elsewhere'));
  screen.getByText('elsewhere').blur();
  rerender(<Part place="left" />);
  expect(document.activeElement).toBe(document.body);
});
