/** An element's bounding box in the browser's coordinates, px. */
export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

const GAP = 12;
const EDGE = 8;

/**
 * The position of a popover of a given size next to its anchor: to the right if there is enough space, otherwise to the
 * left, otherwise below. It is kept inside the window as far as possible.
 */
export function popoverPosition(
  anchor: Box,
  size: { width: number; height: number },
  page: { width: number; height: number }
): { left: number; top: number } {
  const inside = (at: number, length: number, all: number) => Math.max(EDGE, Math.min(at, all - length - EDGE));
  const right = anchor.left + anchor.width + GAP;
  const left = anchor.left - GAP - size.width;
  if (right + size.width + EDGE <= page.width) {
    return { left: right, top: inside(anchor.top, size.height, page.height) };
  }
  if (left >= EDGE) {
    return { left, top: inside(anchor.top, size.height, page.height) };
  }
  return {
    left: inside(anchor.left, size.width, page.width),
    top: inside(anchor.top + anchor.height + GAP, size.height, page.height)
  };
}
