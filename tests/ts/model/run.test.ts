import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { NumberedEvent } from '../../../src/api/schema';
import { EventSocket } from '../../../src/api/socket';
import { RunModel } from '../../../src/model/run';
import { FakeSocket, fakeSettings, runInfo, taskInfo } from '../fixtures';

const taskEvent = (seq: number, change: object): NumberedEvent => ({
  ...taskInfo('worker:1'),
  type: 'task',
  time: 1000 + seq,
  seq,
  ...change
});

describe('RunModel', () => {
  let socket: EventSocket;
  let model: RunModel;

  beforeEach(() => {
    FakeSocket.all.length = 0;
    socket = new EventSocket(fakeSettings().settings);
    socket.connect();
    FakeSocket.last.open();
    model = new RunModel(runInfo('r'), socket);
  });

  afterEach(() => socket.dispose());

  it('is told of only while somebody looks, and resumes after what it has', () => {
    model.needWidth(900);
    expect(FakeSocket.last.sent).toEqual([]);
    model.acquire();
    model.acquire();
    expect(FakeSocket.last.sent).toEqual([{ type: 'subscribe', run: 'r', after: -1, width: 1000, x: 'step' }]);
    model.applyEvents({ type: 'events', run: 'r', events: [], next_seq: 8 });
    model.release();
    model.release();
    expect(FakeSocket.last.sent[1]).toEqual({ type: 'unsubscribe', run: 'r' });
    model.acquire();
    expect(FakeSocket.last.sent[2]).toMatchObject({ type: 'subscribe', after: 7 });
  });

  it('asks again only for a wider plot', () => {
    model.acquire();
    model.needWidth(590);
    expect(FakeSocket.last.sent).toHaveLength(1);
    model.needWidth(610);
    expect(FakeSocket.last.sent[1]).toMatchObject({ width: 800 });
  });

  it('takes an event once, however often it is sent', () => {
    const note: NumberedEvent = { type: 'note', time: 1, level: 'info', title: 'checked', text: '', task: '', seq: 3 };
    model.applyEvents({ type: 'events', run: 'r', events: [note], next_seq: 4 });
    model.applyEvents({ type: 'events', run: 'r', events: [note], next_seq: 4 });
    expect(model.story).toEqual([note]);
  });

  it('starts over when a frame does not follow', () => {
    model.acquire();
    const frame = { metric: 'loss', task: 'w', start: 5, x: [1], y: [1] };
    model.applySeries({ type: 'series', run: 'r', frames: [frame] });
    expect(model.lines()).toEqual([]);
    expect(FakeSocket.last.sent).toHaveLength(2);
  });

  it('forgets the lines of another axis', () => {
    model.acquire();
    model.applySeries({ type: 'series', run: 'r', frames: [{ metric: 'loss', task: 'w', start: 0, x: [1], y: [1] }] });
    model.setX('time');
    expect(model.lines()).toEqual([]);
    expect(FakeSocket.last.sent[1]).toMatchObject({ type: 'subscribe', x: 'time' });
  });

  it('marks failures and restarts where they happened', () => {
    const progress = (seq: number, time: number, done: number): NumberedEvent => ({
      type: 'progress',
      time,
      seq,
      progress: { done, total: 100, unit: 'step', epoch: 0, epochs: 0 }
    });
    model.applyEvents({
      type: 'events',
      run: 'r',
      events: [
        progress(0, 1000, 0),
        taskEvent(1, { state: 'running' }),
        taskEvent(2, { state: 'failed', signal: 'SIGKILL', time: 1005 }),
        taskEvent(3, { state: 'running', time: 1008 }),
        progress(4, 1010, 50)
      ],
      next_seq: 5
    });
    expect(model.marks.map(({ task, label }) => `${task} ${label}`)).toEqual([
      'worker:1 SIGKILL',
      'worker:1 restarted'
    ]);
    expect(model.markX(model.marks[0]!)).toBe(25);
    model.setX('time');
    expect(model.markX(model.marks[0]!)).toBe(4);
  });
});
