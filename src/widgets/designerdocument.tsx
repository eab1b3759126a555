import { ReactWidget } from '@jupyterlab/apputils';
import { ABCWidgetFactory, DocumentRegistry, DocumentWidget } from '@jupyterlab/docregistry';
import type { Message } from '@lumino/messaging';
import React from 'react';

import { clusterName } from '../model/clusterdesign';
import { DesignModel } from '../model/design';
import { DiskWatch } from '../model/diskwatch';
import type { DesignerOptions, OpenDesign } from './designeroptions';
import { addTools } from './designertools';
import { Designer } from './designerview';

const LOOK_EVERY_MS = 5000;

/** A `.dtf` document with the drawings of the cluster and the placement. */
export class DesignerDocument
  extends DocumentWidget<DesignerContent, DocumentRegistry.ICodeModel>
  implements OpenDesign
{
  constructor(options: DocumentWidget.IOptions<DesignerContent, DocumentRegistry.ICodeModel>) {
    super(options);
    this.addClass('jp-dtf-designer-document');
  }

  get design(): DesignModel {
    return this.content.model;
  }

  /** The name of the cluster that is started from here. */
  get clusterName(): string {
    return this.design.design.cluster.name || clusterName(this.context.path);
  }
}

/** Creates designers. Views of one document share its model. */
export class DesignerFactory extends ABCWidgetFactory<DesignerDocument, DocumentRegistry.ICodeModel> {
  constructor(
    factory: DocumentRegistry.IWidgetFactoryOptions<DesignerDocument>,
    private readonly _options: DesignerOptions
  ) {
    super(factory);
  }

  protected override createNewWidget(
    context: DocumentRegistry.IContext<DocumentRegistry.ICodeModel>
  ): DesignerDocument {
    const content = new DesignerContent(context, this._modelOf(context), this._options);
    const document = new DesignerDocument({ content, context, translator: this.translator });
    content.document = document;
    addTools(document.toolbar, document, this._options);
    return document;
  }

  private _modelOf(context: DocumentRegistry.IContext<DocumentRegistry.ICodeModel>): DesignModel {
    const known = this._models.get(context);
    if (known) {
      return known;
    }
    const model = new DesignModel(
      context.model,
      this._options.dtf.api,
      () => context.contentsModel?.writable === false
    );
    this._models.set(context, model);
    context.disposed.connect(() => model.dispose());
    return model;
  }

  private readonly _models = new WeakMap<object, DesignModel>();
}

/** The content of a designer's document. */
export class DesignerContent extends ReactWidget {
  constructor(
    readonly context: DocumentRegistry.IContext<DocumentRegistry.ICodeModel>,
    readonly model: DesignModel,
    private readonly _options: DesignerOptions
  ) {
    super();
    this.addClass('jp-dtf-designer');
    this.node.tabIndex = -1;
    this.node.dataset['jpUndoer'] = 'true'; // for JupyterLab's undo and redo shortcuts
    this.watch = new DiskWatch(context, _options.contents);
    void context.ready.then(() => this.update());
  }

  readonly watch: DiskWatch;
  /** Set right after construction: a document widget is created around its content. */
  document!: OpenDesign;

  override dispose(): void {
    if (!this.isDisposed) {
      this._rest();
      this.watch.dispose();
      super.dispose();
    }
  }

  handleEvent(event: Event): void {
    if (event.type === 'focus') {
      void this.watch.look(); // the user has returned to the window, and may have changed the file
      return;
    }
    // While the user is typing, undo belongs to the field.
    const isTyping = event.type === 'focusin' && (event.target as HTMLElement).matches('input, textarea');
    if (isTyping) {
      delete this.node.dataset['jpUndoer'];
    } else {
      this.node.dataset['jpUndoer'] = 'true';
    }
  }

  protected override render(): React.ReactElement {
    return <Designer document={this.document} options={this._options} watch={this.watch} />;
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.node.addEventListener('focusin', this);
    this.node.addEventListener('focusout', this);
  }

  protected override onBeforeDetach(message: Message): void {
    this.node.removeEventListener('focusin', this);
    this.node.removeEventListener('focusout', this);
    super.onBeforeDetach(message);
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    void this.watch.look();
    this._rest();
    window.addEventListener('focus', this);
    this._timer = setInterval(() => {
      if (!document.hidden) {
        void this.watch.look();
      }
    }, LOOK_EVERY_MS);
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this._rest();
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    if (!this.node.contains(document.activeElement)) {
      this.node.focus({ preventScroll: true });
    }
  }

  /** Stop watching the file while the widget is not visible. */
  private _rest(): void {
    window.removeEventListener('focus', this);
    clearInterval(this._timer);
  }

  private _timer: ReturnType<typeof setInterval> | undefined;
}
