import { ReactWidget, ToolbarButtonComponent } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { codeIcon, redoIcon, runIcon, stopIcon, Toolbar, undoIcon } from '@jupyterlab/ui-components';
import type { Widget } from '@lumino/widgets';
import React from 'react';

import type { DesignModel } from '../model/design';
import { useSignals } from '../views/hooks';
import type { DesignerOptions, OpenDesign } from './designeroptions';

interface Parts {
  document: OpenDesign;
  options: DesignerOptions;
}

/** Add the designer's buttons to its document's toolbar. */
export function addTools(toolbar: Toolbar<Widget>, document: OpenDesign, options: DesignerOptions): void {
  const { trans } = options;
  const tools: [string, React.ReactElement][] = [
    ['start', <StartButton document={document} options={options} />],
    ['script', <ScriptButton document={document} options={options} />],
    ['undo', <UndoButton model={document.design} trans={trans} />],
    ['redo', <RedoButton model={document.design} trans={trans} />]
  ];
  for (const [name, element] of tools) {
    const tool = ReactWidget.create(element);
    tool.addClass('jp-ToolbarButton');
    toolbar.addItem(name, tool);
  }
}

function StartButton(props: Parts): React.ReactElement {
  const { document, options } = props;
  const { dtf, trans } = options;
  const { design: model } = document;
  const [busy, setBusy] = React.useState(false);
  useSignals(
    model.changed,
    model.reportChanged,
    dtf.clusters.changed,
    dtf.server.changed,
    document.context.pathChanged
  );
  const name = document.clusterName;
  const live = dtf.clusters.get(name);
  if (live && (live.state === 'starting' || live.state === 'running' || live.state === 'stopping')) {
    return (
      <ToolbarButtonComponent
        icon={stopIcon}
        label={trans.__('Stop')}
        tooltip={trans.__('Stop the cluster %1', name)}
        enabled={live.state !== 'stopping'}
        onClick={() => options.stop(name)}
      />
    );
  }
  const wrong = (model.report?.problems ?? []).find(
    ({ level, field }) => level === 'error' && field.startsWith('cluster')
  );
  const start = () => {
    setBusy(true);
    void options.start(document).finally(() => setBusy(false));
  };
  return (
    <ToolbarButtonComponent
      icon={runIcon}
      label={trans.__('Start')}
      tooltip={wrong ? wrong.message : trans.__('Start the cluster as it is drawn')}
      enabled={!busy && !wrong && document.context.isReady && model.error === null && dtf.server.health === 'ok'}
      onClick={start}
    />
  );
}

function ScriptButton(props: Parts): React.ReactElement {
  const { document, options } = props;
  const { trans } = options;
  const { design: model } = document;
  useSignals(model.changed);
  return (
    <ToolbarButtonComponent
      icon={codeIcon}
      label={trans.__('Script')}
      tooltip={
        model.design.model
          ? trans.__('Write a script in plain TensorFlow that trains the model as it is placed')
          : trans.__('A script needs a model: choose one under Placement')
      }
      enabled={model.design.model !== null && model.error === null}
      onClick={() => void options.exportScript(document)}
    />
  );
}

function UndoButton(props: { model: DesignModel; trans: TranslationBundle }): React.ReactElement {
  const { model, trans } = props;
  useSignals(model.changed);
  const label = model.undoLabel;
  return (
    <ToolbarButtonComponent
      icon={undoIcon}
      tooltip={label === '' ? trans.__('Undo') : trans.__('Undo: %1', label)}
      enabled={model.canUndo}
      onClick={() => model.undo()}
    />
  );
}

function RedoButton(props: { model: DesignModel; trans: TranslationBundle }): React.ReactElement {
  const { model, trans } = props;
  useSignals(model.changed);
  const label = model.redoLabel;
  return (
    <ToolbarButtonComponent
      icon={redoIcon}
      tooltip={label === '' ? trans.__('Redo') : trans.__('Redo: %1', label)}
      enabled={model.canRedo}
      onClick={() => model.redo()}
    />
  );
}
