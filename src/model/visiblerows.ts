/** Which rows of a list can be seen. Pure. */

/** So many rows above and below those in sight are in the page. */
export const OVERSCAN = 20;

/** Which of `count` rows of equal height can be seen: from the first to before the second. */
export function visibleRows(scrollTop: number, height: number, count: number, rowHeight: number): [number, number] {
  const first = Math.max(0, Math.floor(scrollTop / rowHeight) - OVERSCAN);
  return [Math.min(first, count), Math.min(count, Math.ceil((scrollTop + height) / rowHeight) + OVERSCAN)];
}
