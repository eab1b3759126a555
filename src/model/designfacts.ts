/** Designs side by side: their contents as individual values, named as in a `.dtf` file. Pure. */

import type { Design } from '../api/schema';
import { formatBytes } from './format';
import { deviceName, placesOf } from './layerplacement';
import type { Compared } from './runtable';

/** The values of a design, keyed by the paths of its fields; for layers, their placement by layer name. */
export function factsOf(design: Readonly<Design>): Map<string, string | number> {
  const { cluster, model, placement, run } = design;
  const facts = new Map<string, string | number>([['cluster.kind', cluster.kind]]);
  for (const [job, count] of Object.entries(cluster.jobs)) {
    facts.set(`cluster.jobs.${job}`, count);
  }
  for (const { name, cpus, memory_bytes: memory, gpus } of cluster.hosts) {
    const parts = [`CPU ${cpus}`, ...(memory > 0 ? [formatBytes(memory)] : [])];
    gpus.forEach((bytes, index) => parts.push(`GPU:${index}${bytes > 0 ? ` ${formatBytes(bytes)}` : ''}`));
    facts.set(`cluster.hosts.${name}`, parts.join(' · '));
  }
  for (const { job, index, host, device, memory_bytes: memory } of cluster.tasks) {
    const cap = memory > 0 ? ` · ${formatBytes(memory)}` : '';
    facts.set(`cluster.tasks.${job}:${index}`, `${host} ${device}${cap}`);
  }
  const layers = model?.graph.layers.map(({ id }) => id) ?? [
    ...Object.keys(placement.devices),
    ...Object.keys(placement.splits)
  ];
  if (layers.length > 0) {
    facts.set('run.batch_size', run.batch_size);
    facts.set('run.microbatches', run.microbatches);
    facts.set('run.replicas', run.replicas);
    facts.set('run.epochs', run.epochs);
  }
  if (model) {
    facts.set('model', model.graph.model);
    facts.set('model.layers', layers.length);
  }
  for (const layer of layers) {
    const places = placesOf(placement, layer);
    facts.set(`placement.${layer}`, places.length > 0 ? places.map(deviceName).join(', ') : '–');
  }
  return facts;
}

/** Compare designs side by side; null entries have no values and do not count as different. */
export function compareDesigns(designs: readonly (Readonly<Design> | null)[]): Compared[] {
  const facts = designs.map(design => design && factsOf(design));
  const names = new Set(facts.flatMap(known => [...(known?.keys() ?? [])]));
  return [...names].map(column => {
    const values = facts.map(known => known?.get(column));
    const told = values.filter((_, index) => facts[index] !== null);
    return { column, values, differs: told.some(value => value !== told[0]) };
  });
}
