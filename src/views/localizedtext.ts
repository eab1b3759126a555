import type { TranslationBundle } from '@jupyterlab/translation';

import type { ClusterState, RunState, TaskState } from '../api/schema';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
// Creating a format takes much longer than using it, and lists are rendered often.
const CLOCK = new Intl.DateTimeFormat([], { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const FULL = new Intl.DateTimeFormat([], { dateStyle: 'full', timeStyle: 'medium' });

/** A time in the shortest unambiguous form: `5 min ago`, `14:03`, `yesterday 14:03`, `21 Nov 14:03`. */
export function whenText(seconds: number, now: number, trans: TranslationBundle): string {
  const ago = now - seconds;
  if (ago < MINUTE) {
    return trans.__('just now');
  }
  if (ago < HOUR) {
    return trans.__('%1 min ago', Math.floor(ago / MINUTE));
  }
  const [then, today] = [new Date(1000 * seconds), new Date(1000 * now)];
  const yesterday = new Date(today.getFullYear(), today.getMonth(), today.getDate() - 1);
  const clock = CLOCK.format(then);
  if (then.toDateString() === today.toDateString()) {
    return clock;
  }
  if (then.toDateString() === yesterday.toDateString()) {
    return trans.__('yesterday %1', clock);
  }
  return then.getFullYear() === today.getFullYear()
    ? `${then.toLocaleDateString([], { day: 'numeric', month: 'short' })} ${clock}`
    : then.toLocaleDateString([], { day: 'numeric', month: 'short', year: 'numeric' });
}

/** A time in full. */
export function momentText(seconds: number): string {
  return FULL.format(1000 * seconds);
}

/** A state in the user's language. */
export function stateText(state: ClusterState | RunState | TaskState, trans: TranslationBundle): string {
  switch (state) {
    case 'starting':
      return trans.__('starting');
    case 'running':
      return trans.__('running');
    case 'serving':
      return trans.__('serving');
    case 'finished':
      return trans.__('finished, serving other tasks');
    case 'restarting':
      return trans.__('restarting');
    case 'pausing':
      return trans.__('pausing');
    case 'paused':
      return trans.__('paused');
    case 'stopping':
      return trans.__('stopping');
    case 'stopped':
      return trans.__('stopped');
    case 'failed':
      return trans.__('failed');
    case 'lost':
      return trans.__('lost');
    case 'pending':
      return trans.__('waiting');
    case 'launching':
      return trans.__('launching');
    case 'succeeded':
      return trans.__('succeeded');
    default:
      return state; // from a newer server
  }
}
