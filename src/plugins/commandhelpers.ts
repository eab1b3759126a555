import { InputDialog, Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyJSONObject } from '@lumino/coreutils';

import { messageOf } from '../model/errormessage';

/** The schema of a command's arguments, all of them optional strings: the user is asked for missing ones. */
export function describe(properties: Record<string, string>): { args: ReadonlyJSONObject } {
  return {
    args: {
      type: 'object',
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, description]) => [name, { type: 'string', description }])
      )
    }
  };
}

/** The argument if it was given, the only item if there is just one, otherwise the user's choice; null if none. */
export async function choose(
  given: unknown,
  items: readonly { value: string; label: string }[],
  title: string,
  none: string
): Promise<string | null> {
  if (typeof given === 'string' && given !== '') {
    return given;
  }
  if (items.length === 0) {
    Notification.info(none, { autoClose: 5000 });
    return null;
  }
  if (items.length === 1) {
    return items[0]!.value;
  }
  const labels = items.map(item => item.label);
  const { value, button } = await InputDialog.getItem({ title, items: labels });
  return button.accept && value !== null ? (items[labels.indexOf(value)]?.value ?? null) : null;
}

/** Run an action, and show its errors to the user. */
export async function attempt<T>(trans: TranslationBundle, what: () => Promise<T>): Promise<T | undefined> {
  try {
    return await what();
  } catch (error) {
    const message = messageOf(error);
    Notification.error(message !== '' ? message : trans.__('The Jupyter server does not respond.'));
    return undefined;
  }
}
