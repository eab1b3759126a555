import React from 'react';

/**
 * Keeps the focus within a part of the page whose elements are re-created in other places: it moves to the element with
 * the same `data-what`, and to the part itself if there is none. Spread the result over the part's element.
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
        focused.current = null; // the focus has moved elsewhere and must not be taken back
      }
    }
  };
}
