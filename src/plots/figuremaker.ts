import type { BokehApi } from './bokeh';
import type { PlotCard } from './plotcard';

// Figures are created for at most this long before yielding to user input.
const MAKING_MS = 20;
// Scrolling faster than this, in pixels per frame, leaves no time to see a plot.
const FAST = 400;

/** What a maker needs from the grid. */
export interface MakerActions {
  /** The cards whose figure has yet to be created; none once the grid is disposed of. */
  due(): PlotCard[];
  /** Create and show the figure of a card, unless it is no longer wanted. */
  make(card: PlotCard, bokeh: BokehApi): Promise<void>;
  problem(error: unknown): void;
}

/** Makes the figures of the cards in sight, a few at a time. */
export class FigureMaker {
  constructor(
    private readonly _host: HTMLElement,
    private readonly _actions: MakerActions
  ) {}

  /** Create all figures that are due, a few per frame, visible ones first. Does nothing while that is in progress. */
  async make(bokeh: BokehApi): Promise<void> {
    if (this._making) {
      return;
    }
    this._making = true;
    try {
      let top = this._host.getBoundingClientRect().top;
      while (this._due().length > 0) {
        const began = performance.now();
        for (const card of this._due()) {
          await this._actions.make(card, bokeh);
          if (performance.now() - began > MAKING_MS) {
            break;
          }
        }
        if (this._due().length === 0) {
          break;
        }
        let fast: boolean;
        do {
          await new Promise(requestAnimationFrame);
          const now = this._host.getBoundingClientRect().top;
          fast = Math.abs(now - top) > FAST;
          top = now;
        } while (fast);
      }
    } catch (error) {
      this._actions.problem(error);
    } finally {
      this._making = false;
    }
  }

  /** The cards whose figures are due, visible ones first. */
  private _due(): PlotCard[] {
    const due = this._actions.due();
    const inSight = new Map(due.map(card => [card, card.isInSight]));
    return due.sort((a, b) => Number(inSight.get(b)) - Number(inSight.get(a)));
  }

  private _making = false;
}
