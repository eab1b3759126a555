import { waitFor } from '@testing-library/react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { RestApi } from '../../../src/api/rest';
import { EventSocket } from '../../../src/api/socket';
import { ServerModel } from '../../../src/model/server';
import { FakeSocket, fakeSettings } from '../fixtures';

describe('ServerModel', () => {
  let socket: EventSocket;

  afterEach(() => socket.dispose());

  function make(answer: () => unknown): ServerModel {
    const { settings } = fakeSettings(answer);
    socket = new EventSocket(settings);
    return new ServerModel(new RestApi(settings), socket, '0.1.0');
  }

  const status = (version: string) => () => ({
    version,
    protocol: 1,
    oldest: 1,
    dask: '',
    tensorflow: '',
    notes: []
  });

  it('is healthy when the socket is open and the versions agree', async () => {
    const server = make(status('0.1.0'));
    socket.connect();
    FakeSocket.last.open();
    await waitFor(() => expect(server.health).toBe('ok'));
  });

  it.each([
    ['missing', () => new Response('', { status: 404 })],
    ['refused', () => new Response('', { status: 403 })],
    ['offline', () => new Response('', { status: 502 })],
    ['stale', status('0.2.0')],
    ['foreign', () => ({ ...status('9.0.0')(), protocol: 99, oldest: 99 })],
    ['foreign', () => ({ version: '0.0.1' })],
    [
      'offline',
      () => {
        throw new TypeError('Failed to fetch');
      }
    ]
  ])('is %s depending on the response of the server', async (health, answer) => {
    const server = make(answer);
    socket.connect();
    FakeSocket.last.lose();
    await waitFor(() => expect(server.health).toBe(health));
  });

  it('is blocked while requests succeed but the socket is lost repeatedly, until it receives a message', async () => {
    vi.useFakeTimers();
    try {
      let answers = true;
      const server = make(() => {
        if (!answers) {
          throw new TypeError('Failed to fetch');
        }
        return status('0.1.0')();
      });
      const lose = async () => {
        FakeSocket.last.lose();
        await vi.advanceTimersByTimeAsync(30_000); // the next attempt
      };
      socket.connect();
      await lose();
      answers = false; // the server restarts: the failures are not due to a proxy, so the count is reset
      await lose();
      answers = true;
      await lose();
      await lose();
      expect(server.health).toBe('offline');
      FakeSocket.last.open(); // a proxy accepts it, and closes it at once
      await vi.advanceTimersByTimeAsync(0);
      await lose();
      expect(server.health).toBe('blocked');
      expect(server.socketUrl).toBe('ws://server/base/jupyter-dtf/api/events');
      FakeSocket.last.open();
      await vi.advanceTimersByTimeAsync(0);
      expect(server.health).toBe('blocked');
      FakeSocket.last.receive({ type: 'clusters', clusters: [] });
      await vi.advanceTimersByTimeAsync(0);
      expect(server.health).toBe('ok');
    } finally {
      vi.useRealTimers();
    }
  });

  it('ignores the failure of a request that is older than one that has succeeded', async () => {
    const answers: ((answer: unknown) => void)[] = [];
    const server = make(() => new Promise(take => answers.push(take)));
    socket.connect();
    FakeSocket.last.lose();
    const older = server.check();
    socket.connect();
    FakeSocket.last.open();
    await waitFor(() => expect(answers).toHaveLength(3));
    answers[2]!(status('0.1.0')());
    await waitFor(() => expect(server.health).toBe('ok'));
    answers[1]!(new Response('', { status: 504 }));
    await older;
    expect(server.health).toBe('ok');
  });

  it('compares only releases, because npm and Python write pre-releases differently', async () => {
    const server = make(status('0.1.0a1'));
    socket.connect();
    FakeSocket.last.open();
    await waitFor(() => expect(server.health).toBe('ok'));
  });
});
