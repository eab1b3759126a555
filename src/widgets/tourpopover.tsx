import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';
import React from 'react';

import { Tour, TourStep } from '../views/tour';

/** The tour, shown on top of the page. When it ends, the focus returns to its previous element. */
export class TourPopover extends ReactWidget {
  constructor(
    private readonly _steps: readonly TourStep[],
    private readonly _trans: TranslationBundle
  ) {
    super();
    this._before = document.activeElement;
  }

  /** Start the tour. */
  open(): void {
    Widget.attach(this, document.body);
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    super.dispose();
    if (this._before instanceof HTMLElement && this._before.isConnected) {
      this._before.focus();
    }
  }

  protected override render(): React.ReactElement {
    return <Tour steps={this._steps} trans={this._trans} onEnd={() => this.dispose()} />;
  }

  private readonly _before: Element | null;
}
