import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { backoff, EventSocket } from '../../../src/api/socket';
import { FakeSocket, fakeSettings } from '../fixtures';

describe('backoff', () => {
  it('doubles up to a limit, with jitter over the upper half', () => {
    expect([0, 1, 2, 20].map(attempt => backoff(attempt, () => 1))).toEqual([500, 1000, 2000, 30_000]);
    expect(backoff(1, () => 0)).toBe(500);
  });
});

describe('EventSocket', () => {
  let socket: EventSocket;

  beforeEach(() => {
    vi.useFakeTimers();
    FakeSocket.all.length = 0;
    socket = new EventSocket(fakeSettings().settings);
  });

  afterEach(() => {
    socket.dispose();
    vi.useRealTimers();
  });

  const events = (run: string, next_seq: number) => ({ type: 'events' as const, run, events: [], next_seq });

  it('opens with the token, like the sockets of JupyterLab', () => {
    socket.connect();
    expect(socket.state).toBe('connecting');
    expect(FakeSocket.last.url).toBe('ws://server/base/jupyter-dtf/api/events?protocol=1&oldest=1&token=secret');
    FakeSocket.last.open();
    expect(socket.state).toBe('open');
  });

  it('subscribes when it is open, and again after a reconnect, from where it stopped', () => {
    socket.subscribe('r', { next: 0, width: 600, x: 'step', metrics: [] });
    socket.connect();
    expect(FakeSocket.last.sent).toEqual([]);
    FakeSocket.last.open();
    expect(FakeSocket.last.sent).toEqual([
      { type: 'subscribe', run: 'r', after: -1, width: 600, x: 'step', metrics: [] }
    ]);

    FakeSocket.last.receive(events('r', 17));
    FakeSocket.last.lose();
    expect(socket.state).toBe('waiting');
    vi.advanceTimersByTime(500);
    expect(FakeSocket.all).toHaveLength(2);
    FakeSocket.last.open();
    expect(FakeSocket.last.sent).toEqual([
      { type: 'subscribe', run: 'r', after: 16, width: 600, x: 'step', metrics: [] }
    ]);
  });

  it('waits longer after each failure, and briefly again after it has received a message', () => {
    vi.spyOn(Math, 'random').mockReturnValue(1);
    socket.connect();
    FakeSocket.last.lose();
    vi.advanceTimersByTime(500);
    FakeSocket.last.open(); // accepted, and closed at once
    FakeSocket.last.lose();
    vi.advanceTimersByTime(999);
    expect(FakeSocket.all).toHaveLength(2);
    vi.advanceTimersByTime(1);
    expect(FakeSocket.all).toHaveLength(3);
    FakeSocket.last.open();
    FakeSocket.last.receive({ type: 'clusters', clusters: [] });
    FakeSocket.last.lose();
    vi.advanceTimersByTime(500);
    expect(FakeSocket.all).toHaveLength(4);
  });

  it('drops messages about a run that nobody is subscribed to any more', () => {
    const heard: string[] = [];
    socket.message.connect((_, message) => heard.push(message.type));
    socket.connect();
    FakeSocket.last.open();
    socket.subscribe('r', { next: 0, width: 600, x: 'step', metrics: [] });
    socket.unsubscribe('r');
    FakeSocket.last.receive(events('r', 3));
    FakeSocket.last.receive({ type: 'series', run: 'r', frames: [] });
    FakeSocket.last.receive({ type: 'runs', runs: [], all: true, removed: [] });
    expect(heard).toEqual(['runs']);
    expect(FakeSocket.last.sent[1]).toEqual({ type: 'unsubscribe', run: 'r' });
  });

  describe('when the server answers a subscription with an error', () => {
    const error = (message: string) => FakeSocket.last.receive({ type: 'error', message, run: 'r' });
    const asked = () => FakeSocket.last.sent.filter(({ type }) => type === 'subscribe').length;

    beforeEach(() => {
      vi.spyOn(Math, 'random').mockReturnValue(1);
      socket.connect();
      FakeSocket.last.open();
      socket.subscribe('r', { next: 0, width: 600, x: 'step', metrics: [] });
    });

    it('subscribes again from where it stopped, after pauses that grow', () => {
      FakeSocket.last.receive(events('r', 17));
      error('The store is locked');
      vi.advanceTimersByTime(499);
      expect(asked()).toBe(1);
      vi.advanceTimersByTime(1);
      expect(FakeSocket.last.sent[1]).toMatchObject({ type: 'subscribe', run: 'r', after: 16 });
      error('The store is locked');
      vi.advanceTimersByTime(999);
      expect(asked()).toBe(2);
      vi.advanceTimersByTime(1);
      expect(asked()).toBe(3);
      vi.advanceTimersByTime(40_000);
      expect(asked()).toBe(3);
      error('Another problem, much later');
      vi.advanceTimersByTime(500);
      expect(asked()).toBe(4);
    });

    it('does not if the run is not known, or is not viewed any more', () => {
      const hub = readFileSync(path.join(__dirname, '../../../jupyter_dtf/backend/records/hub.py'), 'utf8');
      expect(hub).toContain('f"There is no run with the id {');
      error("There is no run with the id 'r'");
      FakeSocket.last.receive({ type: 'error', message: 'Not about a run', run: '' });
      vi.advanceTimersByTime(60_000);
      error('The store is locked');
      socket.unsubscribe('r');
      error('The store is locked');
      vi.advanceTimersByTime(60_000);
      expect(asked()).toBe(1);
    });

    it('does not if the server continues by itself', () => {
      error('The store is locked');
      FakeSocket.last.receive({ type: 'series', run: 'r', frames: [] });
      vi.advanceTimersByTime(60_000);
      expect(asked()).toBe(1);
    });

    it('subscribes only once if the socket is opened again, or another width is needed, during the pause', () => {
      error('The store is locked');
      socket.subscribe('r', { next: 0, width: 800, x: 'step', metrics: [] });
      vi.advanceTimersByTime(60_000);
      expect(asked()).toBe(2);
      error('The store is locked');
      FakeSocket.last.lose();
      socket.connect();
      FakeSocket.last.open();
      vi.advanceTimersByTime(60_000);
      expect(asked()).toBe(1);
    });
  });

  it('ignores messages of a server with an incompatible protocol, until a compatible one responds', () => {
    const heard: string[] = [];
    socket.message.connect((_, message) => heard.push(message.type));
    socket.connect();
    FakeSocket.last.open();
    FakeSocket.last.receive({ type: 'hello', protocol: 99, oldest: 98, version: '9.0.0' });
    FakeSocket.last.receive({ type: 'clusters', clusters: [] });
    expect(heard).toEqual([]);
    FakeSocket.last.lose();
    vi.advanceTimersByTime(60_000);
    FakeSocket.last.open();
    FakeSocket.last.receive({ type: 'hello', protocol: 99, oldest: 1, version: '9.0.0' });
    FakeSocket.last.receive({ type: 'clusters', clusters: [] });
    expect(heard).toEqual(['hello', 'clusters']);
  });

  it('stays closed once disposed', () => {
    socket.connect();
    const last = FakeSocket.last;
    last.lose();
    socket.dispose();
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.all).toHaveLength(1);
    expect(last.closed).toBe(true);
    expect(socket.state).toBe('closed');
  });
});
