import type { Contents } from '@jupyterlab/services';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { fireEvent, render, screen } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import { DesignsModel } from '../../../../src/model/designs';
import { DesignError, OlderDesign } from '../../../../src/model/designtext';
import { BrokenDesign } from '../../../../src/views/designer/brokendesign';
import { Designs } from '../../../../src/views/designlist';

const trans = nullTranslator.load('jupyter_dtf');

describe('BrokenDesign', () => {
  function show(error: DesignError, failure = '', canUndo = true) {
    const actions = { onOpenText: vi.fn(), onUndo: vi.fn() };
    render(<BrokenDesign error={error} failure={failure} canUndo={canUndo} trans={trans} {...actions} />);
    return actions;
  }

  it('shows the position of an error, and can open the text there or undo', () => {
    const actions = show(new DesignError('This is not JSON: colon expected', 3, 14));
    expect(screen.getByText('This is not JSON: colon expected')).toBeTruthy();
    expect(screen.getByText('Line 3, column 14')).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Open as text at line 3' }));
    expect(actions.onOpenText).toHaveBeenCalledWith(3, 14);
    fireEvent.click(screen.getByRole('button', { name: 'Undo' }));
    expect(actions.onUndo).toHaveBeenCalledOnce();
  });

  it('waits for the server to read an older version, and reports if that fails', () => {
    show(new OlderDesign('This design is of version 0, older than 1', 1, 1));
    expect(screen.getByRole('status').textContent).toBe('Reading a design of an older version…');
    show(new OlderDesign('This design is of version 0, older than 1', 1, 1), '502 Bad Gateway');
    expect(screen.getByText('This design is of version 0, older than 1. 502 Bad Gateway')).toBeTruthy();
  });
});

describe('Designs', () => {
  it('are those of the folder, and are updated with it', () => {
    const owner = {};
    const refreshed = new Signal<object, void>(owner);
    let names = ['b.dtf', 'a.dtf', 'notes.md', 'old.dtf'];
    const items = () =>
      names.map(
        name => ({ name, path: `dir/${name}`, type: name === 'old.dtf' ? 'directory' : 'file' }) as Contents.IModel
      );
    const model = new DesignsModel({ path: 'dir', items, refreshed });
    const changed = vi.fn();
    model.changed.connect(changed);
    expect(model.paths).toEqual(['dir/a.dtf', 'dir/b.dtf']);
    refreshed.emit();
    expect(changed).not.toHaveBeenCalled();
    names = ['c.dtf'];
    refreshed.emit();
    expect(changed).toHaveBeenCalledOnce();
    model.dispose();
    names = [];
    refreshed.emit();
    expect(model.paths).toEqual(['dir/c.dtf']);
  });

  it('can be opened, started and created in the panel', () => {
    const actions = { onNew: vi.fn(), onOpen: vi.fn(), onStart: vi.fn() };
    const { rerender } = render(<Designs paths={['dir/a.dtf']} trans={trans} {...actions} />);
    fireEvent.click(screen.getByRole('button', { name: 'Open a.dtf' }));
    fireEvent.click(screen.getByRole('button', { name: 'Start the cluster of a.dtf' }));
    fireEvent.click(screen.getByRole('button', { name: 'New design' }));
    expect(actions.onOpen).toHaveBeenCalledWith('dir/a.dtf');
    expect(actions.onStart).toHaveBeenCalledWith('dir/a.dtf');
    expect(actions.onNew).toHaveBeenCalledOnce();
    rerender(<Designs paths={[]} trans={trans} {...actions} />);
    expect(screen.getByText(/^A design is a drawing of a cluster/)).toBeTruthy();
  });
});
