/** Which rows of a scrolled list are visible. Pure. */

/** Number of rows rendered above and below the visible ones. */
export const OVERSCAN = 20;

/** The rows to render out of `count` rows of equal height: index of the first, and index after the last. */
export function visibleRows(scrollTop: number, height: number, count: number, rowHeight: number): [number, number] {
  const first = Math.max(0, Math.floor(scrollTop / rowHeight) - OVERSCAN);
  return [Math.min(first, count), Math.min(count, Math.ceil((scrollTop + height) / rowHeight) + OVERSCAN)];
}
