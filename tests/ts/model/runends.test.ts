import { expect, it } from 'vitest';

import type { RunInfo } from '../../../src/api/schema';
import { DEFAULT_PREFERENCES } from '../../../src/model/preferences';
import { EndWatch, isToldOfEnd } from '../../../src/model/runends';
import { runInfo } from '../fixtures';

const ended = (id: string, created: number, change: Partial<RunInfo> = {}) =>
  runInfo(id, { created, started: created, ended: created + 60, state: 'succeeded', ...change });

it('finds each run once that ends while somebody looks, or between two looks', () => {
  const watch = new EndWatch();
  const ids = (runs: RunInfo[]) => watch.look(runs).map(run => run.id);
  const [past, going] = [ended('past', 10), runInfo('going', { created: 20 })];
  expect(ids([past, going])).toEqual([]); // the first look: of the past
  expect(ids([past, { ...going, state: 'paused' }])).toEqual([]);
  const gone = ended('going', 20, { state: 'lost' });
  const between = ended('between', 30); // began and ended while the page was cut off
  const restored = ended('restored', 5); // was had back
  expect(ids([past, gone, between, restored])).toEqual(['going', 'between']);
  expect(ids([past, gone, restored])).toEqual([]);
  expect(ids([past, gone, between, restored])).toEqual([]); // deleted, and had back
});

it.each<[boolean, Partial<RunInfo>]>([
  [true, {}],
  [true, { state: 'failed' }],
  [true, { state: 'lost' }],
  [false, { state: 'stopped' }],
  [false, { ended: 159.9 }],
  [false, { trial: { search: 's' } as RunInfo['trial'] }],
  [true, { alarms: [{ about: 'nan', title: '', text: '', task: '', time: 1 }] }],
  [false, { alarms: [{ about: 'end', title: '', text: '', task: '', time: 1 }] }]
])('tells of long runs that nobody has stopped, and that tell of it themselves: %j %j', (told, change) => {
  const run = ended('run', 100, change);
  expect(isToldOfEnd(run, DEFAULT_PREFERENCES)).toBe(told);
  expect(isToldOfEnd(run, { tellOfEnds: 'none', longRun: 0 })).toBe(false);
  expect(isToldOfEnd(run, { tellOfEnds: 'failed', longRun: 60 })).toBe(told && run.state !== 'succeeded');
});
