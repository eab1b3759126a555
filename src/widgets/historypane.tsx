import { Clipboard, ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ISignal, Signal } from '@lumino/signaling';
import React from 'react';

import type { IDtf } from '../tokens';
import { FIRST_CHOICES, History, HistoryActions, HistoryChoices } from '../views/history/history';
import { useSignals } from '../views/hooks';

export interface HistoryOptions extends Omit<HistoryActions, 'onChoices' | 'onCopy'> {
  dtf: IDtf;
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
  /** Store the user's choices. */
  keep: (choices: HistoryChoices) => void;
}

/** All runs, in the main area. */
export class HistoryPane extends ReactWidget {
  constructor(private readonly _options: HistoryOptions) {
    super();
    this.addClass('jp-dtf-history-pane');
  }

  get choices(): HistoryChoices {
    return this._choices;
  }

  /** Set the choices, whether they were stored or the user has just made them. */
  setChoices(choices: HistoryChoices): void {
    this._choices = choices;
    this._changed.emit();
  }

  protected override render(): React.ReactElement {
    return <Pane pane={this} changed={this._changed} options={this._options} />;
  }

  private _choices = FIRST_CHOICES;
  private readonly _changed = new Signal<this, void>(this);
}

function Pane(props: {
  pane: HistoryPane;
  changed: ISignal<unknown, void>;
  options: HistoryOptions;
}): React.ReactElement {
  const { pane, changed, options } = props;
  const { dtf, trans, themeChanged } = options;
  useSignals(dtf.runs.changed, dtf.preferences.changed, changed);
  return (
    <History
      runs={dtf.runs.runs}
      ready={dtf.runs.isReady}
      choices={pane.choices}
      model={id => dtf.runs.model(id)}
      title={id => dtf.runs.title(id)}
      preferences={dtf.preferences.values}
      plots={dtf.preferences.plots}
      themeChanged={themeChanged}
      trans={trans}
      onOpen={options.onOpen}
      onMenu={options.onMenu}
      onArchive={options.onArchive}
      onDelete={options.onDelete}
      onSaveDashboard={options.onSaveDashboard}
      onCopy={text => Clipboard.copyToSystem(text)}
      onChoices={choices => {
        pane.setChoices(choices);
        options.keep(choices);
      }}
    />
  );
}
