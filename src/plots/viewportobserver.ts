import type { IDisposable } from '@lumino/disposable';

import { scrollParent } from './domhelpers';

// A plot is created when it is this close to the viewport, and disposed of when it is that far away, in pixels.
const NEAR = 250;
const FAR = 900;

/** Tracks which elements are near the visible part of the page. */
export class ViewportObserver implements IDisposable {
  /** `changed` is called after elements have come near or moved far away; `host` is an ancestor of all of them. */
  constructor(
    private readonly _host: HTMLElement,
    private readonly _changed: () => void
  ) {
    // A hidden host, such as one in a background tab, keeps its elements, so that returning to it is instant. One that
    // was scrolled out of view, as in a notebook, does not.
    this._whole = new IntersectionObserver(entries => {
      const shown = entries[entries.length - 1]!.isIntersecting;
      if (shown && !this._shown) {
        this._restart();
      } else if (!shown && _host.clientWidth > 0) {
        this._near.clear();
      }
      this._shown = shown;
      _changed();
    });
    this._whole.observe(_host);
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Whether any part of the host is visible. */
  get isShown(): boolean {
    return this._shown;
  }

  has(element: Element): boolean {
    return this._near.has(element);
  }

  /** Watch exactly these elements. */
  watch(elements: readonly Element[]): void {
    const wanted = new Set(elements);
    for (const element of this._watched) {
      if (!wanted.has(element)) {
        this._watched.delete(element);
        this._near.delete(element);
        this._comes?.unobserve(element);
        this._goes?.unobserve(element);
      }
    }
    for (const element of wanted) {
      if (!this._watched.has(element)) {
        this._watched.add(element);
        this._comes?.observe(element);
        this._goes?.observe(element);
      }
    }
  }

  dispose(): void {
    this._disposed = true;
    this._whole.disconnect();
    this._comes?.disconnect();
    this._goes?.disconnect();
    this._near.clear();
    this._watched.clear();
  }

  /**
   * Recreate the observers, which then report all positions again. The scrolling ancestor is known only once the host
   * is in the page.
   */
  private _restart(): void {
    this._comes?.disconnect();
    this._goes?.disconnect();
    const root = scrollParent(this._host);
    const observe = (margin: number, take: (entry: IntersectionObserverEntry) => void) =>
      new IntersectionObserver(
        entries => {
          if (this._host.clientWidth > 0) {
            entries.forEach(take);
            this._changed();
          }
        },
        { root, rootMargin: `${margin}px 0px` }
      );
    this._comes = observe(NEAR, entry => entry.isIntersecting && this._near.add(entry.target));
    this._goes = observe(FAR, entry => !entry.isIntersecting && this._near.delete(entry.target));
    for (const element of this._watched) {
      this._comes.observe(element);
      this._goes.observe(element);
    }
  }

  private _shown = false;
  private _disposed = false;
  private _comes: IntersectionObserver | null = null;
  private _goes: IntersectionObserver | null = null;
  private readonly _whole: IntersectionObserver;
  private readonly _near = new Set<Element>();
  private readonly _watched = new Set<Element>();
}
