import { expect, it } from 'vitest';

import { compareDesigns } from '../../../src/model/designfacts';
import { emptyDesign } from '../../../src/model/designtext';

function drawn(device: string, batch: number) {
  const design = emptyDesign();
  design.cluster.hosts = [{ name: 'lab', cpus: 16, memory_bytes: 1 << 30, gpus: [0] }];
  design.cluster.tasks = [{ job: 'worker', index: 0, host: 'lab', device, memory_bytes: 0 }];
  design.placement.devices = { dense: `/job:worker/task:0/device:${device}:0` };
  design.run.batch_size = batch;
  return design;
}

it('compares designs side by side, and marks differences', () => {
  const lines = new Map(compareDesigns([drawn('CPU', 64), null, drawn('GPU', 64)]).map(line => [line.column, line]));
  expect(lines.get('cluster.hosts.lab')).toEqual({
    column: 'cluster.hosts.lab',
    values: ['CPU 16 · 1.0 GiB · GPU:0', undefined, 'CPU 16 · 1.0 GiB · GPU:0'],
    differs: false
  });
  expect(lines.get('cluster.tasks.worker:0')).toMatchObject({
    values: ['lab CPU', undefined, 'lab GPU'],
    differs: true
  });
  expect(lines.get('placement.dense')?.values).toEqual(['worker:0 CPU:0', undefined, 'worker:0 GPU:0']);
  expect(lines.get('run.batch_size')?.differs).toBe(false);
  expect(compareDesigns([null, drawn('CPU', 64)]).some(line => line.differs)).toBe(false);
});

it('has nothing about training for a design with only a cluster', () => {
  const design = emptyDesign();
  const columns = compareDesigns([design, design]).map(({ column }) => column);
  expect(columns).toEqual(['cluster.kind', 'cluster.jobs.worker']);
});
