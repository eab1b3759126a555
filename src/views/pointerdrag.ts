/** What happens while a pointer is followed. */
interface Follower {
  move(event: PointerEvent): void;
  /** Called when the pointer is released, before `end`; not if the browser takes it away, for example to scroll. */
  release?(event: PointerEvent): void;
  /** Called once, whatever the reason for the end. */
  end?(): void;
}

/**
 * Follow a pointer from its press to its release, its cancellation or the loss of its capture. An element captures the
 * pointer, so that it is followed outside of the element as well; a document or a window does not. Returns a function
 * that ends this earlier.
 */
export function followPointer(pointerId: number, on: Element | Document | Window, follower: Follower): () => void {
  const ended = new AbortController();
  const end = () => {
    if (!ended.signal.aborted) {
      ended.abort();
      follower.end?.();
    }
  };
  const listen = (type: string, act: (event: PointerEvent) => void) =>
    on.addEventListener(
      type,
      event => {
        if ((event as PointerEvent).pointerId === pointerId) {
          act(event as PointerEvent);
        }
      },
      { signal: ended.signal }
    );
  listen('pointermove', event => follower.move(event));
  listen('pointerup', event => {
    follower.release?.(event);
    end();
  });
  listen('pointercancel', end);
  if (on instanceof Element) {
    // An element inside that had captured a touch loses it now, and its event passes through this one.
    listen('lostpointercapture', ({ target }) => target === on && end());
    on.setPointerCapture(pointerId);
  }
  return end;
}
