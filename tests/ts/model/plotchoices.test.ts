import { describe, expect, it, vi } from 'vitest';

import { PlotChoices } from '../../../src/model/plotchoices';

describe('PlotChoices', () => {
  it('keeps which plots are expanded, collapsed and pinned', () => {
    const choices = new PlotChoices();
    const changed = vi.fn();
    choices.changed.connect(changed);
    choices.setOpen(['a', 'b'], true);
    choices.setOpen(['b'], false);
    choices.setPinned('loss', true);
    choices.setPinned('norm', true);
    choices.setPinned('loss', false);
    expect(changed).toHaveBeenCalledTimes(5);
    expect([choices.isOpen('a'), choices.isOpen('b'), choices.isOpen('c')]).toEqual([true, false, undefined]);
    const later = new PlotChoices();
    later.load(JSON.parse(JSON.stringify(choices.save())));
    expect(later.save()).toEqual({ open: ['a'], folded: ['b'], pinned: ['norm'] });
  });

  it('drops the oldest entries, and ignores invalid ones', () => {
    const choices = new PlotChoices();
    choices.setOpen(
      Array.from({ length: 600 }, (_, i) => `f${i}`),
      true
    );
    expect(choices.save().open).toHaveLength(500);
    expect(choices.save().open[499]).toBe('f599');
    for (const kept of [undefined, null, 3, { open: 3, pinned: [1, 'loss', 'loss'] }]) {
      choices.load(kept);
    }
    expect(choices.save()).toEqual({ open: [], folded: [], pinned: ['loss'] });
  });
});
