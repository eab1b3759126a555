import type { ILayoutRestorer } from '@jupyterlab/application';
import type { WidgetTracker } from '@jupyterlab/apputils';
import type { DocumentRegistry, IDocumentWidget } from '@jupyterlab/docregistry';
import type { LabIcon } from '@jupyterlab/ui-components';

/** Register a factory, track the documents that it opens, and reopen them when the page is loaded again. */
export function trackDocuments<T extends IDocumentWidget>(
  registry: DocumentRegistry,
  factory: Omit<DocumentRegistry.IWidgetFactory<T, DocumentRegistry.ICodeModel>, 'contentProviderId'>,
  tracker: WidgetTracker<T>,
  icon: LabIcon,
  restorer: ILayoutRestorer | null
): void {
  // eslint-disable-next-line @typescript-eslint/no-unnecessary-type-assertion -- needed with exact optional properties
  registry.addWidgetFactory(factory as DocumentRegistry.WidgetFactory);
  factory.widgetCreated.connect((_, document) => {
    document.title.icon = icon;
    document.context.pathChanged.connect(() => void tracker.save(document));
    void tracker.add(document);
  });
  void restorer?.restore(tracker, {
    command: 'docmanager:open',
    args: ({ context }) => ({ path: context.path, factory: factory.name }),
    name: ({ context }) => context.path
  });
}
