import { element } from './domhelpers';
import { Format, SaveMenu } from './savemenu';

/** The labels of a plot's buttons. */
export interface ToolWords {
  pin: (metric: string) => string;
  unpin: (metric: string) => string;
  move: (metric: string) => string;
  reset: (metric: string) => string;
  save: (metric: string) => string;
  saveAs: (format: Format) => string;
}

/** The actions of a plot's buttons. */
export interface ToolActions {
  /** Null: the plot cannot be pinned. */
  pin: ((pinned: boolean) => void) | null;
  /** Move it by this many positions among the pinned plots. */
  order(by: number): void;
  /** Set whether dragging pans or selects a range. */
  move(moves: boolean): void;
  reset(): void;
  save(format: Format): void;
}

const draw = (path: string) =>
  `<svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d="${path}"/></svg>`;

const STAR = draw('M8 2.2l1.8 3.7 4 .6-2.9 2.8.7 4L8 11.4l-3.6 1.9.7-4L2.2 6.5l4-.6z');
const MOVE = draw('M8 2v12M2 8h12M6 4l2-2 2 2M6 12l2 2 2-2M4 6L2 8l2 2M12 6l2 2-2 2');
const RESET = draw('M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10');
const SAVE = draw('M8 2.5v7M5 6.8l3 3 3-3M2.5 12.5v1h11v-1');

/**
 * The buttons of a plot, in its heading: Bokeh's own cover the curve and cannot be reached by keyboard. They are
 * visible while the pointer or the focus is on the plot; active ones, always.
 */
export class PlotTools {
  readonly node = element('span', 'jp-dtf-plot-tools');

  constructor(
    private readonly _metric: string,
    private readonly _words: ToolWords,
    actions: ToolActions
  ) {
    this._move = this._button(MOVE, _words.move(_metric), () => {
      const moves = this._move.getAttribute('aria-pressed') !== 'true';
      this._move.setAttribute('aria-pressed', String(moves));
      actions.move(moves);
    });
    this._move.setAttribute('aria-pressed', 'false');
    this._reset = this._button(RESET, _words.reset(_metric), () => actions.reset());
    const save = this._button(SAVE, _words.save(_metric), () => undefined);
    const menu = new SaveMenu(save, _words.saveAs, format => actions.save(format));
    this._pin = this._button(STAR, '', () => actions.pin?.(this._pin.getAttribute('aria-pressed') !== 'true'));
    this._pin.hidden = actions.pin === null;
    this._pin.onkeydown = event => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.altKey && by !== undefined) {
        event.preventDefault();
        actions.order(by);
        this._pin.focus(); // its place in the page has changed
      }
    };
    this._pin.classList.add('jp-mod-pin');
    this._ofFigure = [this._reset, this._move, save]; // buttons that are not always shown are first, so others do not move
    this.setFigure(false);
    this.setZoomed(false);
    this.node.append(this._reset, this._move, menu.node, this._pin);
  }

  get moves(): boolean {
    return this._move.getAttribute('aria-pressed') === 'true';
  }

  setPinned(pinned: boolean): void {
    this._pin.setAttribute('aria-pressed', String(pinned));
    name(this._pin, pinned ? this._words.unpin(this._metric) : this._words.pin(this._metric));
  }

  /** Set whether there is a figure to act on. */
  setFigure(there: boolean): void {
    this._ofFigure.forEach(button => (button.hidden = !there));
  }

  /** Set whether only a part of the lines is visible. */
  setZoomed(zoomed: boolean): void {
    this._reset.disabled = !zoomed;
    this._reset.classList.toggle('jp-mod-on', zoomed);
  }

  private _button(icon: string, label: string, onClick: () => void): HTMLButtonElement {
    const button = element('button', 'jp-dtf-plot-tool');
    button.type = 'button';
    button.innerHTML = icon;
    button.onclick = onClick;
    name(button, label);
    return button;
  }

  private readonly _move: HTMLButtonElement;
  private readonly _reset: HTMLButtonElement;
  private readonly _pin: HTMLButtonElement;
  private readonly _ofFigure: readonly HTMLButtonElement[];
}

function name(button: HTMLButtonElement, label: string): void {
  button.setAttribute('aria-label', label);
  button.title = label;
}
