import type { ILayoutRestorer } from '@jupyterlab/application';
import { WidgetTracker } from '@jupyterlab/apputils';
import type { DocumentRegistry, IDocumentWidget } from '@jupyterlab/docregistry';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { expect, it, vi } from 'vitest';

import { runIcon } from '../../../src/icons';
import { trackDocuments } from '../../../src/plugins/trackeddocuments';

it('tracks the documents of a factory by their paths, also after they are renamed', () => {
  const widgetCreated = new Signal<object, IDocumentWidget>({});
  const factory = { name: 'Drawer', widgetCreated } as never;
  const addWidgetFactory = vi.fn();
  const restore = vi.fn<ILayoutRestorer['restore']>();
  const tracker = new WidgetTracker<IDocumentWidget>({ namespace: 'drawings' });
  const registry = { addWidgetFactory } as unknown as DocumentRegistry;
  trackDocuments(registry, factory, tracker, runIcon, { restore } as unknown as ILayoutRestorer);
  expect(addWidgetFactory).toHaveBeenCalledExactlyOnceWith(factory);

  const context = { path: 'a.draw', pathChanged: new Signal<object, string>({}) };
  const document = Object.assign(new Widget(), { context }) as unknown as IDocumentWidget;
  document.id = 'a';
  widgetCreated.emit(document);
  expect(tracker.has(document)).toBe(true);
  expect(document.title.icon).toBe(runIcon);
  const { command, args, name } = restore.mock.calls[0]![1];
  expect(command).toBe('docmanager:open');
  expect([args!(document), name(document)]).toEqual([{ path: 'a.draw', factory: 'Drawer' }, 'a.draw']);
  const save = vi.spyOn(tracker, 'save').mockResolvedValue();
  context.pathChanged.emit('b.draw');
  expect(save).toHaveBeenCalledExactlyOnceWith(document);
  document.dispose();
});
