import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Forecast, ForecastSettings } from '../../../src/api/schema';
import { ForecastModel, settingsOf, tasksUpTo, WAYS } from '../../../src/model/forecasts';
import { barsOf, countsOf, curveOf, longestStep, nearestCount, textOf } from '../../../src/model/forecasttable';
import { forecastOf, forecastPoint } from '../fixtures';

describe('the requests to the server', () => {
  it('ask for each strategy and for powers of two tasks, up to any number', () => {
    expect(tasksUpTo(64)).toEqual([1, 2, 4, 8, 16, 32, 64]);
    expect(tasksUpTo(6)).toEqual([1, 2, 4, 6]);
    const { choices } = new ForecastModel(() => Promise.resolve([]));
    const [ring, servers, ...others] = settingsOf({ ...choices, ways: ['ps-async', 'ring'], batch: 32, upTo: 4 }, WAYS);
    expect(others).toEqual([]);
    expect(ring).toMatchObject({
      strategy: 'allreduce',
      algorithm: 'ring',
      per_device: 32,
      batch_size: 0,
      tasks: [1, 2, 4]
    });
    expect(servers).toMatchObject({ strategy: 'ps', sync: false });
    const [strong] = settingsOf({ ...choices, batchOf: 'all', batch: 256 }, WAYS);
    expect(strong).toMatchObject({ per_device: 0, batch_size: 256 });
  });
});

describe('ForecastModel', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('sends one request for the latest choices, and aborts earlier requests', async () => {
    const signals: AbortSignal[] = [];
    const asked: ForecastSettings[][] = [];
    const answers: ((found: Forecast[]) => void)[] = [];
    const model = new ForecastModel((settings, signal) => {
      asked.push(settings);
      signals.push(signal);
      return new Promise(resolve => answers.push(resolve));
    });
    model.refresh();
    model.choose({ upTo: 8 });
    await vi.runAllTimersAsync();
    expect(asked).toHaveLength(1);
    model.choose({ ways: ['ring'] });
    await vi.runAllTimersAsync();
    expect(signals[0]!.aborted).toBe(true);
    answers[1]!([forecastOf('new')]);
    answers[0]!([forecastOf('old')]);
    await vi.runAllTimersAsync();
    expect(model.forecasts.map(({ title }) => title)).toEqual(['new']);
    expect(model.isAsking).toBe(false);
  });

  it('reports why there is no forecast, and always has a strategy selected', async () => {
    const model = new ForecastModel(() => Promise.reject(new Error('too few steps')), WAYS.slice(1, 2));
    expect(model.choices.ways).toEqual(['ring']);
    model.choose({ ways: [] });
    expect(model.choices.ways).toEqual(['ring']);
    model.refresh();
    await vi.runAllTimersAsync();
    expect(model.problem).toBe('too few steps');
  });
});

describe('a drawn forecast', () => {
  const forecast = forecastOf('ring', [
    forecastPoint(1, 100),
    forecastPoint(8, 700),
    forecastPoint(64, 900, { problem: 'it needs 90 GiB' }),
    forecastPoint(128, 0, { problem: 'more tasks than examples' })
  ]);

  it('has a curve for settings that would work, and points for those that would not', () => {
    expect([...curveOf(forecast, true).x]).toEqual([1, 8]);
    expect([...curveOf(forecast, true).linear]).toEqual([100, 800]);
    expect([...curveOf(forecast, false).y]).toEqual([900]);
    expect(countsOf([forecast, forecastOf('ps', [forecastPoint(2, 1)])])).toEqual([1, 2, 8, 64, 128]);
    expect(nearestCount([1, 2, 8, 64], 20)).toBe(8);
    expect(nearestCount([1, 2, 8, 64], Infinity)).toBe(64);
  });

  it('has consecutive bars, with the hidden exchange within the compute', () => {
    const parts = { input_s: 1, compute_s: 4, hidden_s: 2, exposed_s: 3, update_s: 0, idle_s: 2 };
    expect(barsOf(parts, 20)).toEqual([
      { part: 'input_s', start: 0, end: 0.05 },
      { part: 'compute_s', start: 0.05, end: 0.25 },
      { part: 'hidden_s', start: 0.15, end: 0.25 },
      { part: 'exposed_s', start: 0.25, end: 0.4 },
      { part: 'idle_s', start: 0.4, end: 0.5 }
    ]);
    expect(longestStep(forecast.points)).toBe(0.1);
  });

  it('can be copied as a table of plain numbers', () => {
    const [head, first] = textOf([forecast]).split('\n');
    expect(head!.split('\t').slice(0, 3)).toEqual(['strategy', 'tasks', 'examples_per_second']);
    expect(first!.split('\t').slice(0, 6)).toEqual(['ring', '1', '100', '80', '120', '100']);
  });
});
