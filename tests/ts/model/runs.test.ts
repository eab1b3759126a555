import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { RestApi } from '../../../src/api/rest';
import type { RunInfo } from '../../../src/api/schema';
import { EventSocket } from '../../../src/api/socket';
import { RunsModel } from '../../../src/model/runs';
import { FakeSocket, fakeSettings, runInfo } from '../fixtures';

describe('RunsModel', () => {
  let socket: EventSocket;
  let runs: RunsModel;

  beforeEach(() => {
    const { settings } = fakeSettings();
    socket = new EventSocket(settings);
    runs = new RunsModel(new RestApi(settings), socket);
    socket.connect();
    FakeSocket.last.open();
  });

  afterEach(() => socket.dispose());

  const tell = (infos: RunInfo[], all = false, removed: string[] = []) =>
    FakeSocket.last.receive({ type: 'runs', runs: infos, all, removed });

  it('distinguishes runs of the same name by their time', () => {
    tell(
      [runInfo('a', { name: 'sequential' }), runInfo('b', { name: 'sequential', created: 2000 }), runInfo('c')],
      true
    );
    expect(runs.title('a')).toMatch(/^sequential · \d\d:\d\d:\d\d$/);
    expect(runs.title('a')).not.toBe(runs.title('b'));
    expect(runs.title('c')).toBe('name-c');
    expect(runs.title('gone')).toBe('gone');
  });

  it('lists runs newest first and keeps one model of each', () => {
    expect(runs.isReady).toBe(false);
    tell([runInfo('a', { created: 1 }), runInfo('b', { created: 2 })], true);
    expect(runs.isReady).toBe(true);
    expect(runs.runs.map(run => run.id)).toEqual(['b', 'a']);
    const model = runs.model('a')!;
    tell([runInfo('a', { created: 1, state: 'failed' })]);
    expect(runs.model('a')).toBe(model);
    expect(model.info.state).toBe('failed');
    tell([], false, ['a']);
    expect(runs.model('a')).toBeUndefined();
  });

  it('signals new runs, but not those that already existed', () => {
    const started: string[] = [];
    runs.started.connect((_, info) => started.push(info.id));
    tell([runInfo('a')], true);
    tell([runInfo('a'), runInfo('b')]);
    tell([runInfo('a'), runInfo('b'), runInfo('c')], true); // after a reconnect
    expect(started).toEqual(['b', 'c']);
  });

  it('passes events and series to the run that they belong to', () => {
    tell([runInfo('a'), runInfo('b')], true);
    const [a, b] = [runs.model('a')!, runs.model('b')!];
    a.acquire();
    b.acquire();
    const frame = { metric: 'loss', task: 'w', start: 0, x: [1], y: [1], replaced: '' };
    FakeSocket.last.receive({ type: 'series', run: 'a', frames: [frame] });
    expect(a.lines('loss')).toHaveLength(1);
    expect(b.lines('loss')).toHaveLength(0);
  });
});
