import { expect, it } from 'vitest';

import type { RunInfo } from '../../../src/api/schema';
import { DEFAULT_PREFERENCES } from '../../../src/model/preferences';
import { EndWatch, isToldOfEnd } from '../../../src/model/runends';
import { runInfo } from '../fixtures';

const ended = (id: string, created: number, change: Partial<RunInfo> = {}) =>
  runInfo(id, { created, started: created, ended: created + 60, state: 'succeeded', ...change });

it('reports each run that ends after the first look, once', () => {
  const watch = new EndWatch();
  const ids = (runs: RunInfo[]) => watch.look(runs).map(run => run.id);
  const [past, going] = [ended('past', 10), runInfo('going', { created: 20 })];
  expect(ids([past, going])).toEqual([]); // ended before the first look
  expect(ids([past, { ...going, state: 'paused' }])).toEqual([]);
  const gone = ended('going', 20, { state: 'lost' });
  const between = ended('between', 30); // started and ended while the page was disconnected
  const restored = ended('restored', 5); // was restored
  expect(ids([past, gone, between, restored])).toEqual(['going', 'between']);
  expect(ids([past, gone, restored])).toEqual([]);
  expect(ids([past, gone, between, restored])).toEqual([]); // deleted, and restored
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
])('reports the ends of long runs that were not stopped, and have no alarm about it: %j %j', (told, change) => {
  const run = ended('run', 100, change);
  expect(isToldOfEnd(run, DEFAULT_PREFERENCES)).toBe(told);
  expect(isToldOfEnd(run, { tellOfEnds: 'none', longRun: 0 })).toBe(false);
  expect(isToldOfEnd(run, { tellOfEnds: 'failed', longRun: 60 })).toBe(told && run.state !== 'succeeded');
});
