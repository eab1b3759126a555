import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { RestApi } from '../../../src/api/rest';
import type { RunInfo } from '../../../src/api/schema';
import { EventSocket } from '../../../src/api/socket';
import { RunsModel } from '../../../src/model/runs';
import { FakeSocket, fakeSettings, runInfo } from '../fixtures';

describe('RunsModel', () => {
  let socket: EventSocket;
  let runs: RunsModel;
  /** The server's reply to the next requests. */
  let reply: RunInfo;

  beforeEach(() => {
    const { settings } = fakeSettings(() => reply);
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

  describe('when the reply to a change of marks arrives', () => {
    const marks = { name: '', tags: ['new'], note: '', archived: false, deleted: null };

    it('adopts a reply that is newer than what is known', async () => {
      tell([runInfo('a', { next_seq: 3 })], true);
      reply = runInfo('a', { next_seq: 4, state: 'failed', marks });
      await runs.patch('a', { tags: ['new'] });
      expect(runs.get('a')).toEqual(reply);
      expect(runs.current).toEqual([reply]);
    });

    it('takes only the changed marks from one that is older, so that an ended run stays ended', async () => {
      const ended = runInfo('a', { next_seq: 9, state: 'succeeded', marks: { ...marks, tags: [], note: 'newer' } });
      tell([ended], true);
      reply = runInfo('a', { next_seq: 8, name: 'older', marks });
      await runs.patch('a', { tags: ['new'] });
      expect(runs.get('a')).toEqual({ ...ended, marks: { ...ended.marks, tags: ['new'] } });
      reply = runInfo('a', { next_seq: 8, name: 'better', marks: { ...marks, name: 'better' } });
      await runs.patch('a', { name: 'better' });
      expect(runs.get('a')).toMatchObject({
        state: 'succeeded',
        name: 'better',
        marks: { name: 'better', note: 'newer' }
      });
    });

    it('does not bring back a run that has been removed since, unless it was restored', async () => {
      tell([], true);
      reply = runInfo('a', { marks });
      await runs.patch('a', { tags: ['new'] });
      expect(runs.runs).toEqual([]);
      await runs.patch('a', { deleted: false });
      expect(runs.runs).toEqual([reply]);
    });
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
