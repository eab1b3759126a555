import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { Signal } from '@lumino/signaling';
import { beforeEach, expect, it, vi } from 'vitest';

import type { RunInfo } from '../../../src/api/schema';
import { DEFAULT_PREFERENCES } from '../../../src/model/preferences';
import { alarms } from '../../../src/plugins/alarmnotices';
import { runInfo } from '../fixtures';

beforeEach(() => Notification.dismiss());

/** Activates the plugin in a page whose runs the test changes. */
function page() {
  const changed = new Signal<object, void>({});
  const runs = { runs: [] as RunInfo[], isReady: true, title: (id: string) => `title-${id}`, changed };
  const execute = vi.fn(() => Promise.resolve());
  const app = { commands: { execute } } as unknown as JupyterFrontEnd;
  void alarms.activate(app, { runs, preferences: { values: DEFAULT_PREFERENCES } }, null);
  return (...now: RunInfo[]) => {
    runs.runs = now;
    changed.emit();
    return Notification.manager.notifications.map(({ message, type, options }) => [message, type, options.autoClose]);
  };
}

const long = { created: 100, started: 100 };
const END = { about: 'end', title: 'd has succeeded', text: '', task: '', time: 190 };

it('reports the ends of long runs, and only once if the run has an alarm about it', () => {
  const show = page();
  const going = ['a', 'b', 'c', 'd'].map(id => runInfo(id, long));
  expect(show(...going)).toEqual([]);
  const told = show(
    runInfo('a', { ...long, state: 'succeeded', ended: 190 }),
    runInfo('b', { ...long, state: 'failed', ended: 190, message: 'worker:0: ValueError: no\nmore' }),
    runInfo('c', { ...long, state: 'stopped', ended: 190 }),
    runInfo('d', { ...long, state: 'succeeded', ended: 190, alarms: [END] })
  );
  expect(told.sort()).toEqual([
    ['d has succeeded', 'success', false],
    ['title-a has succeeded after 1m 30s', 'success', 15_000],
    ['title-b: failed after 1m 30s. worker:0: ValueError: no', 'error', false]
  ]);
});
