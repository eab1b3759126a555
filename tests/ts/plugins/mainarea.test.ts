import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import { expect, it } from 'vitest';

import { runIcon } from '../../../src/icons';
import { mainWidget } from '../../../src/plugins/mainarea';

it('gives a widget in the main area a title that follows what it shows, until it is closed', () => {
  const changed = new Signal<object, void>({});
  let label = 'before';
  const title = () => ({ label, caption: `about ${label}` });
  const widget = mainWidget(new Widget(), { id: 'one', icon: runIcon, title, changed });
  const shown = widget.title;
  expect([widget.id, shown.label, shown.caption, widget.toolbar.isHidden]).toEqual([
    'one',
    'before',
    'about before',
    true
  ]);
  label = 'after';
  changed.emit();
  expect([shown.label, shown.caption]).toEqual(['after', 'about after']);
  widget.dispose();
  label = 'closed';
  changed.emit();
  expect(shown.label).toBe('after');
});
