import { expect, it } from 'vitest';

import { deviceNumber, moved } from '../../../src/model/keyboardplacement';
import type { HostDevice } from '../../../src/model/clusterdesign';

const device = (host: string, name: string): HostDevice => ({ host, device: name, memory_bytes: 0 });
const DEVICES = [
  device('a', 'CPU'),
  device('a', 'GPU:0'),
  device('a', 'GPU:1'),
  device('b', 'CPU'),
  device('c', 'CPU'),
  device('c', 'GPU:0')
];

it.each([
  [-1, 'ArrowDown', 0],
  [0, 'ArrowUp', -1],
  [-1, 'ArrowUp', -1],
  [5, 'ArrowDown', 5],
  [-1, 'ArrowRight', 0],
  [-1, 'ArrowLeft', -1],
  [2, 'ArrowRight', 3], // b has one device
  [3, 'ArrowRight', 4],
  [5, 'ArrowLeft', 3],
  [5, 'ArrowRight', 5],
  [4, 'Home', 0],
  [0, 'End', 5],
  [0, 'x', undefined]
])('from %j by %s to %j', (at, key, to) => {
  expect(moved(DEVICES, at, key)).toBe(to);
});

it('does not move without devices', () => {
  for (const key of ['ArrowDown', 'ArrowUp', 'ArrowRight', 'ArrowLeft', 'Home', 'End']) {
    expect(moved([], -1, key)).toBe(-1);
  }
});

it('returns the number of a device', () => {
  expect(deviceNumber(DEVICES, 'c', 'GPU:0')).toBe(5);
  expect(deviceNumber(DEVICES, 'c', 'GPU:7')).toBe(-1);
});
