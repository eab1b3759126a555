import React from 'react';

/**
 * Keeps the focus in a part of the page whose elements are drawn anew in other places: it follows what has the same
 * `data-what`, and goes to the part itself when the focused element is gone. Spread it over the part's element.
 */
export function useFollowingFocus(): Pick<React.HTMLAttributes<HTMLDivElement>, 'onFocus' | 'onBlur'> & {
  ref: React.RefObject<HTMLDivElement>;
} {
  const ref = React.useRef<HTMLDivElement>(null);
  const focused = React.useRef<HTMLElement | null>(null);
  React.useLayoutEffect(() => {
    const before = focused.current;
    const isFree = document.activeElement === null || document.activeElement === document.body;
    if (before && !before.isConnected && isFree) {
      const what = before.dataset['what'];
      const same = [...(ref.current?.querySelectorAll<HTMLElement>('[data-what]') ?? [])].find(
        ({ dataset }) => what !== undefined && dataset['what'] === what
      );
      (same ?? ref.current)?.focus({ preventScroll: same === undefined });
    }
  });
  return {
    ref,
    onFocus: event => {
      focused.current = event.target;
    },
    onBlur: ({ relatedTarget }) => {
      if (relatedTarget && !ref.current?.contains(relatedTarget)) {
        focused.current = null; // it is somewhere else now, and is not taken back
      }
    }
  };
}
