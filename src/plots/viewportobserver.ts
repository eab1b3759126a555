import type { IDisposable } from '@lumino/disposable';

import { scrollParent } from './domhelpers';

// A plot is made when it is this near to the view, and let go when it is that far, in pixels.
const NEAR = 250;
const FAR = 900;

/** Which of some elements are near the part of the page that can be seen. */
export class Sight implements IDisposable {
  /** `changed` is called after elements have come near or gone far; `host` is an ancestor of all of them. */
  constructor(
    private readonly _host: HTMLElement,
    private readonly _changed: () => void
  ) {
    // A host that is hidden, as in a tab behind, keeps what it has: coming back is instant. One that was scrolled away,
    // as in a notebook, does not.
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

  /** Whether any of the host can be seen. */
  get isShown(): boolean {
    return this._shown;
  }

  has(element: Element): boolean {
    return this._near.has(element);
  }

  /** Watch these elements and no others. */
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

  /** The observers tell again where everything is. What scrolls is known only when the host is in the page. */
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
