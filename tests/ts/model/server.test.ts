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

  it('is well when the socket is open and the versions agree', async () => {
    const server = make(status('0.1.0'));
    socket.connect();
    FakeSocket.last.open();
    await vi.waitFor(() => expect(server.health).toBe('ok'));
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
  ])('is %s when the server says so', async (health, answer) => {
    const server = make(answer);
    socket.connect();
    FakeSocket.last.lose();
    await vi.waitFor(() => expect(server.health).toBe(health));
  });

  it('compares releases, which npm and Python write differently before a release', async () => {
    const server = make(status('0.1.0a1'));
    socket.connect();
    FakeSocket.last.open();
    await vi.waitFor(() => expect(server.health).toBe('ok'));
  });
});
