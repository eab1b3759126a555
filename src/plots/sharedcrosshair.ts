import type { IDisposable } from '@lumino/disposable';

import type { PlotCard } from './plotcard';

// Updating values costs the browser more than moving the crosshair: in each frame the values of the plot under the
// pointer are updated, and of this many others.
const OTHERS = 3;

/** Shows the pointer's position in one plot on all of them, at most once per frame. */
export class SharedCrosshair implements IDisposable {
  /** `cards` returns those that currently have a figure. */
  constructor(private readonly _cards: () => PlotCard[]) {}

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Call when the pointer is at `x` of a card, or has left it (null). */
  point(card: PlotCard, x: number | null): void {
    this._card = card;
    this._x = x;
    this._cards().forEach(other => this._due.add(other));
    this._moved = true;
    this._schedule();
  }

  /** Call when the plots have been redrawn with newer values. */
  renew(): void {
    if (this._card && this._x !== null) {
      this.point(this._card, this._x);
    }
  }

  dispose(): void {
    this._disposed = true;
    cancelAnimationFrame(this._frame);
    this._due.clear();
    this._card = null;
  }

  private _schedule(): void {
    if (this._frame === 0 && !this._disposed) {
      this._frame = requestAnimationFrame(() => {
        this._frame = 0;
        this._show();
      });
    }
  }

  private _show(): void {
    if (this._moved) {
      this._moved = false;
      this._cards().forEach(card => card.showCrosshair(this._x));
    }
    let room = OTHERS;
    if (this._card && this._due.delete(this._card)) {
      this._card.figure?.showValues(this._x);
    }
    for (const card of this._due) {
      this._due.delete(card);
      card.figure?.showValues(this._x);
      room -= 1;
      if (room === 0) {
        break;
      }
    }
    if (this._due.size > 0) {
      this._schedule();
    }
  }

  private _x: number | null = null;
  private _card: PlotCard | null = null;
  private _moved = false;
  private _disposed = false;
  private _frame = 0;
  private readonly _due = new Set<PlotCard>();
}
