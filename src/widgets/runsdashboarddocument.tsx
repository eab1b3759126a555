import { ReactWidget } from '@jupyterlab/apputils';
import { ABCWidgetFactory, DocumentRegistry, DocumentWidget } from '@jupyterlab/docregistry';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import { RunsDashboardModel } from '../model/runsdashboard';
import type { IDtf } from '../tokens';
import { useSignals } from '../views/hooks';
import { RunsDashboardView } from '../views/runsdashboardview';

export interface RunsDashboardOptions {
  dtf: IDtf;
  themeChanged: ISignal<unknown, unknown> | null;
  openRun: (id: string) => void;
  openText: (path: string) => void;
  trans: TranslationBundle;
}

type Context = DocumentRegistry.IContext<DocumentRegistry.ICodeModel>;

/** A `.dtfplots` document: selected plots of several runs. */
export class RunsDashboardDocument extends DocumentWidget<RunsDashboardContent, DocumentRegistry.ICodeModel> {}

/** Creates dashboard documents. */
export class RunsDashboardFactory extends ABCWidgetFactory<RunsDashboardDocument, DocumentRegistry.ICodeModel> {
  constructor(
    factory: DocumentRegistry.IWidgetFactoryOptions<RunsDashboardDocument>,
    private readonly _options: RunsDashboardOptions
  ) {
    super(factory);
  }

  protected override createNewWidget(context: Context): RunsDashboardDocument {
    const content = new RunsDashboardContent(context, this._options);
    return new RunsDashboardDocument({ content, context, translator: this.translator });
  }
}

/** The content of a dashboard document. */
class RunsDashboardContent extends ReactWidget {
  constructor(
    private readonly _context: Context,
    private readonly _options: RunsDashboardOptions
  ) {
    super();
    this.addClass('jp-dtf-runs-dashboard-pane');
    const { runs } = _options.dtf;
    this._model = new RunsDashboardModel(
      _context.model,
      id => runs.get(id)?.name,
      () => _context.contentsModel?.writable === false
    );
    void _context.ready.then(() => this.update());
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this._model.dispose();
      super.dispose();
    }
  }

  protected override render(): React.ReactElement {
    return this._context.isReady ? (
      <Content context={this._context} model={this._model} options={this._options} />
    ) : (
      <></> // until the document is loaded, the model has an empty dashboard
    );
  }

  private readonly _model: RunsDashboardModel;
}

function Content(props: {
  context: Context;
  model: RunsDashboardModel;
  options: RunsDashboardOptions;
}): React.ReactElement {
  const { context, model, options } = props;
  const { dtf, openRun, openText, themeChanged, trans } = options;
  useSignals(dtf.preferences.changed);
  return (
    <RunsDashboardView
      model={model}
      runs={dtf.runs}
      rate={dtf.preferences.values.updatesPerSecond}
      themeChanged={themeChanged}
      onOpenRun={openRun}
      onOpenText={() => openText(context.path)}
      trans={trans}
    />
  );
}
