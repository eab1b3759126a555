import { expect, it } from 'vitest';

import { MachinesModel } from '../../../src/model/machinefigures';
import { shortTitle } from '../../../src/plots/plotarrangement';
import { plotLines } from '../../../src/plots/metricplots';
import { MachinePlots } from '../../../src/plots/machineplots';

const words = { all: (hosts: number) => `All ${hosts} hosts`, each: 'Each host' };

it('has the plots of each host under its name, with a line in its own color for each series', async () => {
  const series = (host: string, metric: string, plot: string, line: string, unit: string) => ({
    ...{ host, metric, plot, line, unit },
    ...{ time: [2], value: [1] }
  });
  const machines = new MachinesModel(0, () =>
    Promise.resolve([
      series('tcp://10.0.0.1:80', 'in', 'Disk I/O', 'read', 'bytes_per_second'),
      series('tcp://10.0.0.1:80', 'out', 'Disk I/O', 'written', 'bytes_per_second'),
      series('b', 'power', 'GPU power', 'GPU 0', 'W')
    ])
  );
  await new Promise<void>(resolve => {
    machines.changed.connect(() => resolve());
    machines.follow();
  });
  machines.rest();
  const source = new MachinePlots(machines, words);
  const { top, families } = source.arrange(source.plots());
  expect(top).toEqual([]);
  expect(families.map(({ title, count, plots }) => [title, count, plots.map(shortTitle)])).toEqual([
    ['tcp://10.0.0.1:80', 1, ['Disk I/O']],
    ['b', 1, ['GPU power']]
  ]);
  const disk = families[0]!.plots[0]!;
  const lines = plotLines(disk, name => source.lines(name), 'auto');
  expect(lines.map(({ task, phase, y }) => [task, phase, [...y]])).toEqual([
    ['read', 'training', [1]],
    ['written', 'training', [1]]
  ]);
  expect(new Set(lines.map(({ task }) => source.colours(disk).get(task))).size).toBe(2);
});

it('has the mean of many hosts with their lines first, and each host collapsed below', async () => {
  const machines = new MachinesModel(0, () =>
    Promise.resolve(
      Array.from({ length: 20 }, (_, host) => ({
        ...{ host: `node-${host}`, metric: 'received', plot: 'Network', line: 'received', unit: 'bytes_per_second' },
        ...{ time: [2, 4], value: [host, host + 1] }
      }))
    )
  );
  await new Promise<void>(resolve => {
    machines.changed.connect(() => resolve());
    machines.follow();
  });
  machines.rest();
  const source = new MachinePlots(machines, words);
  const { families } = source.arrange(source.plots());
  expect(families.map(({ title, count, families: below }) => [title, count, below.length])).toEqual([
    ['All 20 hosts', 1, 0],
    ['Each host', 20, 20]
  ]);
  const plot = families[0]!.plots[0]!;
  expect(shortTitle(plot)).toBe('Network · received');
  const [mean, ...others] = plotLines(plot, name => source.lines(name), 'auto');
  expect(others).toEqual([]);
  expect(mean).toMatchObject({ task: '', y: Float64Array.from([9.5, 10.5]) });
  expect(mean!.parts).toHaveLength(20);
  expect(source.xExtent(plot.names)).toEqual([2, 4]);
});
