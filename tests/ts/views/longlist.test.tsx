import { act, render, screen } from '@testing-library/react';
import React from 'react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { LongList } from '../../../src/views/longlist';

type Tell = (target: Element, isIntersecting: boolean) => void;

/** Stubs the observer, so that the test makes elements visible or invisible. */
function stubSight(): { tell: Tell; observed: Set<Element> } {
  const observed = new Set<Element>();
  let callback: (entries: { target: Element; isIntersecting: boolean }[]) => void = () => undefined;
  vi.stubGlobal(
    'IntersectionObserver',
    class {
      constructor(given: typeof callback) {
        callback = given;
      }
      observe(element: Element): void {
        observed.add(element);
      }
      unobserve(element: Element): void {
        observed.delete(element);
      }
      disconnect(): void {
        observed.clear();
      }
    }
  );
  return { observed, tell: (target, isIntersecting) => act(() => callback([{ target, isIntersecting }])) };
}

const rows = () => screen.queryAllByRole('listitem').map(row => row.textContent);

describe('LongList', () => {
  const made = vi.fn();
  const row = (item: { name: string }) => {
    made(item.name);
    return (
      <div key={item.name} role="listitem">
        {item.name}
      </div>
    );
  };
  const items = Array.from({ length: 1000 }, (_, index) => ({ name: `row ${index}` }));
  const list = (shown: typeof items) => <LongList className="x" items={shown} rowHeight={10} row={row} />;

  afterEach(() => vi.unstubAllGlobals());

  it('renders the rows near the viewport, and reserves room for the others', () => {
    const { tell } = stubSight();
    render(list(items));
    expect(rows()).toHaveLength(50);
    const chunks = screen.getByRole('list').children;
    expect(chunks).toHaveLength(20);
    expect((chunks[7] as HTMLElement).style.height).toBe('500px');
    tell(chunks[7]!, true);
    expect(rows()).toContain('row 350');
    tell(chunks[0]!, false);
    expect(rows()).not.toContain('row 0');
  });

  it('renders only changed rows again, and disconnects its observer', () => {
    const { observed } = stubSight();
    const { rerender, unmount } = render(list(items));
    made.mockClear();
    rerender(list([...items]));
    expect(made).not.toHaveBeenCalled();
    rerender(list([{ name: 'new' }, ...items.slice(1)]));
    expect(rows()[0]).toBe('new');
    unmount();
    expect(observed.size).toBe(0);
  });
});
