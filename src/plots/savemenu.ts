import { element } from './domhelpers';

/** The file formats for saving a plot. */
export const FORMATS = ['png', 'svg', 'csv'] as const;
export type Format = (typeof FORMATS)[number];

/** The menu of file formats, below the button that opens it. */
export class SaveMenu {
  readonly node = element('span', 'jp-dtf-plot-save');

  /** `button` opens the menu, which is inserted next to it. */
  constructor(
    private readonly _button: HTMLButtonElement,
    name: (format: Format) => string,
    save: (format: Format) => void
  ) {
    this._menu.setAttribute('role', 'menu');
    this._menu.hidden = true;
    this._menu.setAttribute('aria-label', _button.getAttribute('aria-label') ?? '');
    for (const format of FORMATS) {
      const item = element('button', 'jp-dtf-plot-save-item', name(format));
      item.type = 'button';
      item.setAttribute('role', 'menuitem');
      item.tabIndex = -1;
      item.onclick = () => {
        this._open(false);
        _button.focus();
        save(format);
      };
      this._menu.append(item);
    }
    _button.setAttribute('aria-haspopup', 'menu');
    _button.onclick = () => this._open(this._menu.hidden);
    this.node.append(_button, this._menu);
    this.node.onkeydown = event => this._onKey(event);
    this.node.addEventListener('focusout', event => {
      if (!this.node.contains(event.relatedTarget as Node | null)) {
        this._open(false);
      }
    });
    this._open(false);
  }

  private _open(open: boolean): void {
    this._menu.hidden = !open;
    this._button.setAttribute('aria-expanded', String(open));
    if (open) {
      (this._menu.firstElementChild as HTMLElement).focus();
    }
  }

  private _onKey(event: KeyboardEvent): void {
    if (this._menu.hidden) {
      return;
    }
    const items = [...this._menu.children] as HTMLElement[];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const to = {
      ArrowDown: (at + 1) % items.length,
      ArrowUp: (at + items.length - 1) % items.length,
      Home: 0,
      End: items.length - 1
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      items[to]!.focus();
    } else if (event.key === 'Escape') {
      event.stopPropagation();
      this._open(false);
      this._button.focus();
    }
  }

  private readonly _menu = element('span', 'jp-dtf-plot-save-menu');
}

/** Download data under a file name derived from a plot's title. */
export function download(blob: Blob, title: string, format: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = `${title.replace(/[^\p{L}\p{N}_.-]+/gu, '-')}.${format}`;
  link.click();
  // Firefox starts reading it only later.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
