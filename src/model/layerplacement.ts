/** The placement of layers: the available devices, editing the placement, and its immediate consequences. Pure. */

import { type Design, type DesignReport, type Layer, type Placement, SPLITTABLE } from '../api/schema';
import type { LayerTree } from './layergraph';
import { taskOf } from './trace';

/** A device of the design's cluster that layers can be placed on. */
export interface DeviceChoice {
  /** `/job:worker/task:1/device:CPU:0`. */
  device: string;
  /** `worker:1`. */
  task: string;
  /** `worker:1 CPU:0`. */
  name: string;
}

/** The devices of a design's tasks according to the server; until it has replied, one CPU for each task. */
export function devicesOf(design: Design, report: DesignReport | null): DeviceChoice[] {
  const named =
    report && Object.keys(report.devices).length > 0
      ? Object.entries(report.devices)
      : Object.entries(design.cluster.jobs).flatMap(([job, count]) =>
          Array.from({ length: count }, (_, index) => [`${job}:${index}`, `/job:${job}/task:${index}/device:CPU:0`])
        );
  return named.map(([task, device]) => ({ task: task!, device: device!, name: deviceName(device!) }));
}

/** `worker:1 CPU:0`. */
export function deviceName(device: string): string {
  return `${taskOf(device)} ${/\/device:(.+)$/.exec(device)?.[1] ?? ''}`.trim();
}

/**
 * The devices on which a layer is placed: none, one, or several if it is split. A design written by hand may place a
 * whole container; the innermost placement applies.
 */
export function placesOf(placement: Placement, layer: string): readonly string[] {
  for (let path = layer; path !== ''; path = path.slice(0, Math.max(0, path.lastIndexOf('/')))) {
    const one = placement.devices[path];
    const places = placement.splits[path] ?? (one === undefined ? null : [one]);
    if (places) {
      return places;
    }
  }
  return [];
}

export function canSplit(layer: Layer): boolean {
  return SPLITTABLE.includes(layer.kind);
}

/** Place layers on a device, as a manual choice. */
export function place(draft: Design, layers: readonly string[], device: string): void {
  const { devices, splits } = draft.placement;
  for (const layer of layers) {
    delete splits[layer];
    devices[layer] = device;
  }
  pin(draft, layers, true);
}

/** Remove layers from their devices. */
export function unplace(draft: Design, layers: readonly string[]): void {
  spread(draft);
  for (const layer of layers) {
    delete draft.placement.devices[layer];
    delete draft.placement.splits[layer];
  }
  pin(draft, layers, false);
}

/** Transfer the placement of containers to their layers, so that single layers can be moved. */
function spread({ placement, model }: Design): void {
  const known = model?.graph.layers.map(layer => layer.id) ?? [];
  const moved = known.map((layer): [string, readonly string[]] => [layer, placesOf(placement, layer)]);
  const containers = containersOf(known);
  containers.forEach(container => delete placement.devices[container]);
  for (const [layer, [one, ...more]] of moved) {
    if (one !== undefined && more.length === 0) {
      placement.devices[layer] = one;
    }
  }
  const within = (id: string) => (containers.has(id) ? known.filter(layer => layer.startsWith(`${id}/`)) : [id]);
  placement.pinned = [...new Set(placement.pinned.flatMap(within))];
}

/** The paths of all containers of these layers. */
function containersOf(layers: readonly string[]): Set<string> {
  return new Set(
    layers.flatMap(layer => {
      const names = layer.split('/').slice(0, -1);
      return names.map((_, depth) => names.slice(0, depth + 1).join('/'));
    })
  );
}

/** Split layers by columns across two or more devices. */
export function split(draft: Design, layers: readonly string[], over: readonly string[]): void {
  for (const layer of layers) {
    delete draft.placement.devices[layer];
    draft.placement.splits[layer] = [...over];
  }
  pin(draft, layers, true);
}

/** Undo the splitting of layers, placing each on the first of its devices. */
export function unsplit(draft: Design, layers: readonly string[]): void {
  const { devices, splits } = draft.placement;
  for (const layer of layers) {
    const first = splits[layer]?.[0];
    delete splits[layer];
    if (first !== undefined) {
      devices[layer] = first;
    }
  }
}

/** Pin or unpin layers: automatic placement does not move pinned layers. */
export function pin(draft: Design, layers: readonly string[], pinned: boolean): void {
  const named = new Set(layers);
  const others = draft.placement.pinned.filter(layer => !named.has(layer));
  draft.placement.pinned = pinned ? [...others, ...layers] : others;
}

/** Replace the model after it was read again: placements of layers that no longer exist are dropped. */
export function setModel(draft: Design, model: NonNullable<Design['model']>): void {
  draft.model = model;
  const layers = model.graph.layers.map(layer => layer.id);
  const there = new Set([...layers, ...containersOf(layers)]);
  const kept = <T>(places: Record<string, T>) =>
    Object.fromEntries(Object.entries(places).filter(([layer]) => there.has(layer)));
  draft.placement = {
    devices: kept(draft.placement.devices),
    splits: kept(draft.placement.splits),
    pinned: draft.placement.pinned.filter(layer => there.has(layer))
  };
  draft.calibration = null; // it was measured with the previous model
}

/**
 * Memory needed by a layer in a training step, in bytes: weights, gradients, slots, and the activations of the whole
 * batch.
 */
export function memoryOf(layer: Layer, batchSize: number): number {
  return layer.parameter_bytes + layer.gradient_bytes + layer.slot_bytes + layer.activation_bytes * batchSize;
}

/** The cost of layers in a step and its unit: measured seconds, or FLOPs if nothing was measured. */
export function timesOfLayers(
  design: Design,
  layers: readonly Layer[]
): { unit: 'seconds' | 'flops'; times: number[] } {
  const measured = design.calibration?.layer_seconds;
  const { batch_size: batch, microbatches } = design.run;
  return measured
    ? {
        unit: 'seconds',
        times: layers.map(({ id }) => {
          const [forward = 0, backward = 0, update = 0] = measured[id] ?? [];
          return microbatches * (forward + backward) + update;
        })
      }
    : { unit: 'flops', times: layers.map(({ flops }) => 3 * batch * flops) };
}

/** Bytes transferred between devices along each edge of the graph in the forward pass of one microbatch. */
export function cutBytes(tree: LayerTree, design: Design): number[] {
  const { placement, run } = design;
  const examples = Math.ceil(run.batch_size / run.microbatches / run.replicas);
  return tree.graph.edges.map(({ source, target, bytes }) => {
    const [from, to] = [placesOf(placement, source), placesOf(placement, target)];
    const known = from.length > 0 && to.length > 0;
    return known && (from.length > 1 || to.length > 1 || from[0] !== to[0]) ? bytes * examples : 0;
  });
}
