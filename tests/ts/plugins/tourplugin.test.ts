import { JupyterFrontEnd } from '@jupyterlab/application';
import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { fireEvent, screen, waitFor } from '@testing-library/react';
import { expect, it } from 'vitest';

import { tour } from '../../../src/plugins/tourplugin';
import { CommandIDs } from '../../../src/tokens';

it('shows the panel, appears only once, and restores the focus', async () => {
  const commands = new CommandRegistry();
  const shown: string[] = [];
  commands.addCommand(CommandIDs.showPanel, { execute: () => shown.push('panel') });
  void tour.activate({ commands } as unknown as JupyterFrontEnd, {}, null, null, nullTranslator);
  const before = document.createElement('button');
  document.body.append(before);
  before.focus();
  await commands.execute(CommandIDs.takeTour);
  await commands.execute(CommandIDs.takeTour);
  await waitFor(() => expect(screen.getAllByRole('dialog')).toHaveLength(1));
  expect(shown).toEqual(['panel', 'panel']);
  expect(document.activeElement).toBe(screen.getByRole('dialog'));
  fireEvent.keyDown(screen.getByRole('dialog'), { key: 'Escape' });
  expect(screen.queryByRole('dialog')).toBeNull();
  expect(document.activeElement).toBe(before);
  before.remove();
});
