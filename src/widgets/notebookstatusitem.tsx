import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ISignal, Signal } from '@lumino/signaling';
import React from 'react';

import { runOn } from '../model/notebookstatus';
import type { IDtf, INotebookClusters } from '../tokens';
import { useSignals } from '../views/hooks';
import { needsHelp, StatusLine } from '../views/statusline';

/** The notebook's cluster and its run, for the status bar. */
export class NotebookStatusItem extends ReactWidget {
  constructor(
    private readonly _dtf: IDtf,
    private readonly _notebooks: INotebookClusters | null,
    private readonly _trans: TranslationBundle,
    private readonly _actions: { showPanel: () => void; openRun: (id: string) => void }
  ) {
    super();
    this.addClass('jp-dtf-status');
    _dtf.server.changed.connect(this._look, this);
    _dtf.preferences.changed.connect(this._look, this);
    _notebooks?.changed.connect(this._look, this);
    this._isActive = this._look();
  }

  /** Whether there is anything to show. */
  get isActive(): boolean {
    return this._isActive;
  }

  get activeChanged(): ISignal<this, void> {
    return this._activeChanged;
  }

  override dispose(): void {
    Signal.clearData(this);
    super.dispose();
  }

  protected override render(): React.ReactElement {
    return <Live dtf={this._dtf} notebooks={this._notebooks} trans={this._trans} {...this._actions} />;
  }

  private _look(): boolean {
    const { server, preferences } = this._dtf;
    const shown = needsHelp(server.health) || (this._notebooks?.current?.name ?? '') !== '';
    const isActive = preferences.values.statusBar && shown;
    if (isActive !== this._isActive) {
      this._isActive = isActive;
      this._activeChanged.emit();
    }
    return isActive;
  }

  private _isActive = false;
  private readonly _activeChanged = new Signal<this, void>(this);
}

const NEVER = new Signal<object, void>({});

function Live(props: {
  dtf: IDtf;
  notebooks: INotebookClusters | null;
  trans: TranslationBundle;
  showPanel: () => void;
  openRun: (id: string) => void;
}): React.ReactElement {
  const { server, clusters, runs } = props.dtf;
  useSignals(server.changed, clusters.changed, runs.changed, props.notebooks?.changed ?? NEVER);
  const name = props.notebooks?.current?.name ?? '';
  const cluster = clusters.get(name);
  return (
    <StatusLine
      health={server.health}
      name={name}
      cluster={cluster}
      run={cluster ? runOn(cluster, runs.current) : null}
      trans={props.trans}
      onCluster={props.showPanel}
      onRun={props.openRun}
    />
  );
}
