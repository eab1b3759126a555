import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { TaskPlace } from '../../../api/schema';
import { Carried, deviceNumber, moved } from '../../../model/keyboardplacement';
import type { HostDevice } from '../../../model/clusterdesign';
import type { ChipHandlers } from './clusterchip';

/**
 * Place tasks with the keyboard: Enter picks up, arrow keys choose a device, Enter drops, Escape cancels, Delete
 * unplaces.
 */
export function useKeyboardPlacement(options: {
  devices: readonly HostDevice[];
  placeOf: (what: string) => TaskPlace | undefined;
  disabled: boolean;
  onSelect: (what: string) => void;
  /** Place a task or a job on a device, or on none. */
  onPut: (what: string, device: HostDevice | undefined) => void;
  /** Announce to screen readers. */
  onSay: (words: string) => void;
  trans: TranslationBundle;
}): { carried: Carried | null; handlers: ChipHandlers } {
  const { devices, disabled, onPut, onSay, trans } = options;
  const [carried, setCarried] = React.useState<Carried | null>(null);

  const pickUp = (what: string, key: string): boolean => {
    if (key === 'Enter') {
      const place = options.placeOf(what);
      setCarried({ what, at: place ? deviceNumber(devices, place.host, place.device) : -1 });
      onSay(trans.__('%1 is picked up. Arrows choose a device, Enter puts it down, Escape cancels.', what));
      return true;
    }
    if (key === 'Delete' || key === 'Backspace') {
      onPut(what, undefined);
      return true;
    }
    return false;
  };

  const carry = (what: string, at: number, key: string): boolean => {
    if (key === 'Escape') {
      setCarried(null);
      onSay(trans.__('%1 stays where it was', what));
      return true;
    }
    if (key === 'Enter' || key === ' ') {
      setCarried(null);
      onPut(what, devices[at]);
      return true;
    }
    const to = moved(devices, at, key);
    if (to === undefined) {
      return false;
    }
    setCarried({ what, at: to });
    const device = devices[to];
    onSay(device ? `${device.host} ${device.device}` : trans.__('no device: assigned automatically'));
    return true;
  };

  const handlers: ChipHandlers = {
    disabled,
    carried: carried?.what ?? null,
    onSelect: what => options.onSelect(what),
    onLeave: what => setCarried(now => (now?.what === what ? null : now)),
    onKey: (what, key) => !disabled && (carried ? carry(what, carried.at, key) : pickUp(what, key))
  };
  return { carried, handlers };
}
