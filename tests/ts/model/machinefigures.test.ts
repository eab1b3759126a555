import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { MachineSeries } from '../../../src/api/schema';
import { MachinesModel, POLL_MS } from '../../../src/model/machinefigures';

function told(metric: string, time: number[], change: Partial<MachineSeries> = {}): MachineSeries {
  return { host: 'a', metric, plot: '', line: '', unit: '', time, value: time.map(at => at / 10), ...change };
}

describe('MachinesModel', () => {
  let answers: (MachineSeries[] | Error)[];
  let asked: number[];
  let machines: MachinesModel;

  const passed = (ms: number) => vi.advanceTimersByTimeAsync(ms);
  const points = (name: string) => machines.lines(name).map(({ task, x, y }) => [task, [...x], [...y]]);

  beforeEach(() => {
    vi.useFakeTimers({ now: 105_000 });
    [answers, asked] = [[], []];
    machines = new MachinesModel(100, after => {
      asked.push(after);
      const answer = answers.shift() ?? [];
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    });
  });

  afterEach(() => {
    machines.rest();
    vi.useRealTimers();
  });

  it('has the plots that the server describes, whatever they are', async () => {
    const fan = { plot: 'Fan', unit: 'rpm' };
    answers.push([
      told('cpu', [102], { plot: 'CPU', line: 'this cluster', unit: 'cores' }),
      told('machine_cpu', [102], { plot: 'CPU', line: 'whole machine', unit: 'cores' }),
      told('fan0', [102], { ...fan, line: 'left' }),
      told('fan0', [102], { ...fan, line: 'left', host: 'b' }),
      told('unheard_of', [102])
    ]);
    machines.follow();
    await passed(0);
    expect(machines.plots.map(({ host, title, unit, lines }) => [host, title, unit, lines.map(l => l.label)])).toEqual([
      ['a', 'CPU', 'cores', ['this cluster', 'whole machine']],
      ['a', 'Fan', 'rpm', ['left']],
      ['b', 'Fan', 'rpm', ['left']],
      ['a', 'unheard_of', 'number', ['unheard_of']]
    ]);
    expect(points('b\0fan0')).toEqual([['left', [102], [10.2]]]);
  });

  it('requests data newer than the latest of the slowest host, while it is shown', async () => {
    answers.push(
      [told('cpu', [102, 104]), told('cpu', [101, 103], { host: 'b' })],
      [told('cpu', [104, 106]), told('cpu', [105], { host: 'b' })]
    );
    expect(asked).toEqual([]);
    machines.follow();
    await passed(POLL_MS);
    expect(asked).toEqual([100, 103]);
    expect(points('a\0cpu')).toEqual([['cpu', [102, 104, 106], [10.2, 10.4, 10.6]]]);
    machines.rest();
    await passed(10 * POLL_MS);
    expect(asked).toEqual([100, 103]);
    machines.follow();
    await passed(0);
    expect(asked).toEqual([100, 103, 105]);
  });

  it('reports an error, keeps the data it has, and continues', async () => {
    answers.push([told('cpu', [102])], new Error('The cluster does not respond'), [told('cpu', [109])]);
    machines.follow();
    await passed(POLL_MS);
    expect(machines.problem).toBe('The cluster does not respond');
    expect(machines.names).toEqual(['a\0cpu']);
    await passed(POLL_MS);
    expect(machines.problem).toBe('');
    expect(points('a\0cpu')).toEqual([['cpu', [102, 109], [10.2, 10.9]]]);
  });

  it('shows the time of the run only, and stops requesting data after its end', async () => {
    vi.setSystemTime(900_000);
    machines.setEnd(200);
    answers.push([told('cpu', [50, 100, 205, 300])]);
    machines.follow();
    await passed(10 * POLL_MS);
    expect(asked).toEqual([100]);
    expect(points('a\0cpu')).toEqual([['cpu', [100, 205], [10, 20.5]]]);
  });

  it('requests all data again when lines have become long', async () => {
    const long = Array.from({ length: 4100 }, (_, i) => 100 + 2 * i);
    answers.push([told('cpu', long)], [told('cpu', [100, 160, 220])]);
    machines.follow();
    await passed(POLL_MS);
    expect(asked).toEqual([100, 100]);
    expect(points('a\0cpu')).toEqual([['cpu', [100, 160, 220], [10, 16, 22]]]);
  });
});
