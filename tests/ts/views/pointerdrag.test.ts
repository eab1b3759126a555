import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { followPointer } from '../../../src/views/pointerdrag';

describe('followPointer', () => {
  let chart: HTMLElement;
  let bar: HTMLElement;
  const capture = vi.fn();
  const [move, release, end] = [vi.fn(), vi.fn(), vi.fn()];
  const follower = { move, release, end };

  const tell = (type: string, at: EventTarget, pointerId = 7) =>
    at.dispatchEvent(Object.assign(new MouseEvent(type, { bubbles: true }), { pointerId }));
  const counts = () => [move, release, end].map(({ mock }) => mock.calls.length);

  beforeEach(() => {
    [chart, bar] = [document.createElement('div'), document.createElement('div')];
    chart.append(bar);
    document.body.append(chart);
    chart.setPointerCapture = capture; // jsdom has no capture
    [capture, move, release, end].forEach(mock => mock.mockClear());
  });

  afterEach(() => chart.remove());

  it('follows one pointer until it is released', () => {
    followPointer(7, document, follower);
    tell('pointermove', bar);
    tell('pointermove', bar, 8);
    tell('pointerup', bar, 8);
    expect(counts()).toEqual([1, 0, 0]);
    tell('pointerup', bar);
    tell('pointermove', bar);
    tell('pointerup', bar);
    expect(counts()).toEqual([1, 1, 1]);
  });

  it('ends without a release if the browser takes the pointer away, or when it is told to', () => {
    followPointer(7, document, follower);
    tell('pointercancel', bar);
    tell('pointerup', bar);
    expect(counts()).toEqual([0, 0, 1]);
    const stop = followPointer(7, document, follower);
    stop();
    stop();
    tell('pointermove', bar);
    expect(counts()).toEqual([0, 0, 2]);
  });

  it('lets an element capture the pointer, and ends when the element itself loses it', () => {
    followPointer(7, chart, follower);
    expect(capture).toHaveBeenCalledExactlyOnceWith(7);
    tell('lostpointercapture', bar); // a touch belongs to the element that was touched until another captures it
    tell('pointermove', chart);
    expect(counts()).toEqual([1, 0, 0]);
    tell('lostpointercapture', chart);
    tell('pointermove', chart);
    expect(counts()).toEqual([1, 0, 1]);
  });
});
