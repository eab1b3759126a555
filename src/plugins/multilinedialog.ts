import { Dialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

/** Prompt for several lines of text; null if the user cancels. */
export async function askLines(trans: TranslationBundle, title: string, value: string): Promise<string | null> {
  const buttons = [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.okButton({ label: trans.__('OK') })];
  const dialog = new LinesDialog({ title, body: new Lines(title, value), buttons, focusNodeSelector: 'textarea' });
  const { button, value: given } = await dialog.launch();
  return button.accept ? given : null;
}

/** JupyterLab's dialog closes on Enter, wherever the caret is; here it inserts a line break. */
class LinesDialog extends Dialog<string> {
  override handleEvent(event: Event): void {
    const isLine = event instanceof KeyboardEvent && event.type === 'keydown' && event.key === 'Enter';
    if (!isLine || !(event.target instanceof HTMLTextAreaElement)) {
      super.handleEvent(event);
    }
  }
}

class Lines extends Widget implements Dialog.IBodyWidget<string> {
  constructor(label: string, value: string) {
    const area = document.createElement('textarea');
    super({ node: document.createElement('div') });
    area.className = 'jp-dtf-lines jp-mod-styled';
    area.rows = 8;
    area.setAttribute('aria-label', label);
    area.value = value;
    this.node.append(area);
    this._area = area;
  }

  getValue(): string {
    return this._area.value;
  }

  private readonly _area: HTMLTextAreaElement;
}
