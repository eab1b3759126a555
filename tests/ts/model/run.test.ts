import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { NumberedEvent } from '../../../src/api/schema';
import { EventSocket } from '../../../src/api/socket';
import { markText } from '../../../src/model/runmarks';
import { RunModel } from '../../../src/model/run';
import { FakeSocket, fakeSettings, noteEvent, runInfo, taskInfo } from '../fixtures';

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

  it('is subscribed only while it is shown, and resumes after the last event', () => {
    model.needWidth(900);
    expect(FakeSocket.last.sent).toEqual([]);
    model.acquire();
    model.acquire();
    expect(FakeSocket.last.sent).toEqual([
      { type: 'subscribe', run: 'r', after: -1, width: 1000, x: 'step', metrics: [] }
    ]);
    model.applyEvents({ type: 'events', run: 'r', events: [], next_seq: 8 });
    model.release();
    model.release();
    expect(FakeSocket.last.sent[1]).toEqual({ type: 'unsubscribe', run: 'r' });
    model.acquire();
    expect(FakeSocket.last.sent[2]).toMatchObject({ type: 'subscribe', after: 7 });
  });

  it('subscribes again only for a wider plot', () => {
    model.acquire();
    model.needWidth(590);
    expect(FakeSocket.last.sent).toHaveLength(1);
    model.needWidth(610);
    expect(FakeSocket.last.sent[1]).toMatchObject({ width: 800 });
  });

  it('requests the metrics that its viewers show, and again when these change', () => {
    const [one, other] = [{}, {}];
    model.want(one, ['loss']);
    model.acquire();
    expect(FakeSocket.last.sent[0]).toMatchObject({ type: 'subscribe', metrics: ['loss'] });
    model.want(other, ['norm', 'loss']);
    model.want(other, ['loss', 'norm']);
    model.want(one, []);
    expect(FakeSocket.last.sent.slice(1)).toEqual([{ type: 'show', run: 'r', metrics: ['loss', 'norm'] }]);
    model.want(other, []);
    expect(FakeSocket.last.sent[2]).toEqual({ type: 'show', run: 'r', metrics: [] });
  });

  it('requests no more metrics than fit into a message', () => {
    model.want(
      {},
      Array.from({ length: 100 }, (_, i) => `${i}`.padEnd(1000, '"'))
    );
    model.acquire();
    expect(JSON.stringify(FakeSocket.last.sent[0]).length).toBeLessThan(1 << 16);
    expect((FakeSocket.last.sent[0] as { metrics: string[] }).metrics.length).toBeGreaterThan(20);
  });

  it('knows the names of metrics before it has their lines', () => {
    model.applySeries({
      type: 'series',
      run: 'r',
      frames: [{ metric: 'norm', task: 'w', start: 0, x: [3, 9], y: [1, 2], replaced: '' }]
    });
    expect(model.metrics).toEqual(['loss', 'accuracy', 'norm']);
    expect(model.xExtent(['loss'])).toBeNull();
    expect(model.xExtent(['loss', 'norm'])).toEqual([3, 9]);
  });

  it('applies an event once, however often it is received', () => {
    const note = noteEvent(3, { level: 'info', title: 'checked' });
    model.applyEvents({ type: 'events', run: 'r', events: [note], next_seq: 4 });
    model.applyEvents({ type: 'events', run: 'r', events: [note], next_seq: 4 });
    expect(model.story).toEqual([note]);
  });

  it('subscribes again when a frame is missing', () => {
    model.acquire();
    const frame = { metric: 'loss', task: 'w', start: 5, x: [1], y: [1], replaced: '' };
    model.applySeries({ type: 'series', run: 'r', frames: [frame] });
    expect(model.lines('loss')).toEqual([]);
    expect(FakeSocket.last.sent).toHaveLength(2);
  });

  it('has the preferred axis until the user chooses one', () => {
    const told = vi.fn();
    model.metricsChanged.connect(told);
    model.preferX('time');
    expect([model.x, told.mock.calls.length]).toEqual(['time', 1]);
    model.setX('step');
    model.preferX('time');
    expect(model.x).toBe('step');
  });

  it('drops the lines of the previous axis', () => {
    model.acquire();
    model.applySeries({
      type: 'series',
      run: 'r',
      frames: [{ metric: 'loss', task: 'w', start: 0, x: [1], y: [1], replaced: '' }]
    });
    model.setX('time');
    expect(model.lines('loss')).toEqual([]);
    expect(FakeSocket.last.sent[1]).toMatchObject({ type: 'subscribe', x: 'time' });
  });

  it('marks failures and restarts where they happened', () => {
    const progress = (seq: number, time: number, done: number, attempt = 0): NumberedEvent => ({
      type: 'progress',
      time,
      seq,
      attempt,
      progress: { done, total: 100, unit: 'step', epoch: 0, epochs: 0 }
    });
    model.applyEvents({
      type: 'events',
      run: 'r',
      events: [
        progress(0, 1000, 0),
        taskEvent(1, { state: 'running' }),
        taskEvent(2, { state: 'failed', signal: 'SIGKILL', message: 'died (SIGKILL)', time: 1005 }),
        progress(3, 1010, 50),
        taskEvent(4, { state: 'running', attempt: 1, time: 1011 }),
        taskEvent(5, { state: 'running', attempt: 1, time: 1011, task: 'worker:0' }),
        progress(6, 1020, 20, 1), // from a checkpoint
        progress(7, 1022, 21, 1),
        progress(8, 1030, 60, 1)
      ],
      next_seq: 9
    });
    expect(model.marks.map(markText)).toEqual(['worker:1 SIGKILL', 'attempt 2']);
    expect(model.marks.map(mark => model.markX(mark))).toEqual([25, 50]);
    const cost = ['about 30 steps are repeated, from step 20', 'the first step ended 17 s after the loss'];
    expect(model.marks.map(mark => mark.details)).toEqual([
      ['died (SIGKILL)', 'in attempt 1, on 0', ...cost],
      ['started 6 s after worker:1 was lost', ...cost]
    ]);
    expect(model.doneAgain).toEqual([{ first: 20, last: 50, begun: 1020, ended: 1030 }]);
    model.setX('time');
    expect(model.markX(model.marks[0]!)).toBe(4);
    expect(model.lifeAt(1005)).toBe(4);
  });

  it('marks stragglers, and each checkpoint once', () => {
    const saved = (seq: number, step: number): NumberedEvent => ({
      type: 'checkpoint',
      time: 1000 + step,
      seq,
      attempt: 0,
      task: 'worker:0',
      removed: [],
      checkpoint: {
        step,
        epoch: 0,
        step_in_epoch: step,
        time: 1000 + step,
        bytes: 1024,
        metric: null,
        path: '',
        seconds: 1
      }
    });
    const slow = noteEvent(0, {
      task: 'worker:2',
      title: 'worker:2 takes long',
      text: 'So long.',
      mark: 'slow',
      time: 1004
    });
    const events = [slow, saved(1, 20), saved(2, 10), saved(3, 20)];
    model.applyEvents({ type: 'events', run: 'r', events, next_seq: 4 });
    expect(model.marks).toEqual([
      { task: 'worker:2', time: 1004, label: 'slow', details: ['worker:2 takes long', 'So long.'] }
    ]);
    expect(model.checkpoints.map(mark => mark.label)).toEqual([
      'checkpoint of step 10, 1.0 KiB',
      'checkpoint of step 20, 1.0 KiB'
    ]);
  });

  it('marks the step at which a metric was first not finite', () => {
    const nan = (seq: number, task: string, step: number) =>
      noteEvent(seq, { title: `loss became NaN at step ${step} on ${task}`, task, metric: 'loss', step, time: 1009 });
    model.applyEvents({
      type: 'events',
      run: 'r',
      events: [nan(0, 'worker:0', 9), nan(1, 'worker:1', 8)],
      next_seq: 2
    });
    expect(model.marks.map(({ label, metric }) => [label, metric])).toEqual([
      ['loss became NaN at step 8 on worker:1', 'loss']
    ]);
    expect(model.markX(model.marks[0]!)).toBe(8);
    model.setX('time');
    expect(model.markX(model.marks[0]!)).toBe(8); // 1009 s - 1001 s
  });

  it('signals metrics whose lines arrive before the description of the run has them', () => {
    const told = vi.fn();
    model.metricsChanged.connect(told);
    const frames = [{ metric: 'norm', task: 'w', start: 0, x: [1], y: [1], replaced: '' }];
    model.applySeries({ type: 'series', run: 'r', frames });
    model.applySeries({ type: 'series', run: 'r', frames });
    expect(told).toHaveBeenCalledOnce();
  });
});
