import { expect, it } from 'vitest';

import type { Alarm } from '../../../src/api/schema';
import { AlarmWatch } from '../../../src/model/alarms';
import { runInfo } from '../fixtures';

const alarm = (time: number, about = 'nan'): Alarm => ({
  about,
  title: `${about} at ${time}`,
  text: '',
  task: '',
  time
});

it('reports each alarm that is raised after the page was loaded, once', () => {
  const watch = new AlarmWatch();
  const old = runInfo('old', { created: 10, alarms: [alarm(11)] });
  expect(watch.look([old])).toEqual([]);
  expect(watch.look([old])).toEqual([]);
  const more = { ...old, alarms: [alarm(11), alarm(12, 'end')] };
  expect(watch.look([more]).map(([run, { title }]) => [run.id, title])).toEqual([['old', 'end at 12']]);
  expect(watch.look([more])).toEqual([]);
  const begun = runInfo('new', { created: 20, alarms: [alarm(21)] });
  expect(watch.look([begun, more]).map(([run]) => run.id)).toEqual(['new']);
  const restored = runInfo('restored', { created: 5, alarms: [alarm(6)] });
  expect(watch.look([begun, more, restored])).toEqual([]);
});
