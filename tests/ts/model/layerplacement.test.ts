import { describe, expect, it } from 'vitest';

import { DEFAULTS, Design } from '../../../src/api/schema';
import { treeOf } from '../../../src/model/layergraph';
import * as places from '../../../src/model/layerplacement';
import { blocks, chain, layer } from '../graphs';

const [ONE, TWO] = ['/job:worker/task:0/device:CPU:0', '/job:worker/task:1/device:CPU:0'];

function design(): Design {
  const graph = chain([layer('a'), layer('b'), layer('c')]);
  return {
    ...(structuredClone(DEFAULTS.Design) as unknown as Design),
    model: { graph, source: { kind: 'none', path: '', variable: '' } }
  };
}

describe('placing', () => {
  it('places, splits, unsplits and unplaces layers', () => {
    const draft = design();
    places.place(draft, ['a', 'b'], ONE);
    expect(draft.placement).toEqual({ devices: { a: ONE, b: ONE }, splits: {}, pinned: ['a', 'b'] });
    places.split(draft, ['b'], [ONE, TWO]);
    expect(draft.placement).toEqual({ devices: { a: ONE }, splits: { b: [ONE, TWO] }, pinned: ['a', 'b'] });
    expect(places.placesOf(draft.placement, 'b')).toEqual([ONE, TWO]);
    places.unsplit(draft, ['a', 'b']);
    expect(draft.placement.devices).toEqual({ a: ONE, b: ONE });
    places.unplace(draft, ['a']);
    expect(draft.placement).toEqual({ devices: { b: ONE }, splits: {}, pinned: ['b'] });
    places.pin(draft, ['b'], false);
    expect(draft.placement.pinned).toEqual([]);
  });

  it('supports containers that are placed as a whole, and unplaces one of their layers', () => {
    const draft = { ...design(), model: { ...design().model!, graph: blocks(2) } };
    draft.placement = { devices: { block_0: ONE, 'block_0/down': TWO }, splits: {}, pinned: ['block_0'] };
    const placed = (layer: string) => places.placesOf(draft.placement, layer);
    expect(['block_0/up', 'block_0/down', 'block_1/up', 'stem'].map(placed)).toEqual([[ONE], [TWO], [], []]);
    places.setModel(draft, draft.model);
    expect(placed('block_0/up')).toEqual([ONE]);
    places.unplace(draft, ['block_0/up']);
    expect(['block_0/up', 'block_0/drop', 'block_0/down'].map(placed)).toEqual([[], [ONE], [TWO]]);
    expect(draft.placement.pinned).toEqual(['block_0/drop', 'block_0/down']);
  });

  it('keeps the placement of layers that still exist when the model is read again', () => {
    const draft = design();
    places.place(draft, ['a', 'b', 'c'], ONE);
    places.setModel(draft, {
      graph: chain([layer('a'), layer('z')]),
      source: { kind: 'file', path: 'm.keras', variable: '' }
    });
    expect(draft.placement).toEqual({ devices: { a: ONE }, splits: {}, pinned: ['a'] });
  });
});

describe('devicesOf', () => {
  it('returns the devices from the server, and CPUs until they are known', () => {
    expect(places.devicesOf(design(), null).map(choice => choice.device)).toEqual([ONE, TWO]);
    const report = { text: '', cluster_spec: {}, tf_config: {}, problems: [], prediction: null };
    const devices = { 'worker:0': '/job:worker/task:0/device:GPU:0' };
    expect(places.devicesOf(design(), { ...report, devices })).toEqual([
      { task: 'worker:0', device: '/job:worker/task:0/device:GPU:0', name: 'worker:0 GPU:0' }
    ]);
  });
});

describe('cutBytes', () => {
  it('returns the bytes that a microbatch sends between devices, including to and from split layers', () => {
    const draft = design();
    draft.run = { batch_size: 64, microbatches: 8, replicas: 1, epochs: 1 };
    const cuts = () => places.cutBytes(treeOf(draft.model!.graph), draft);
    expect(cuts()).toEqual([0, 0]);
    places.place(draft, ['a', 'b'], ONE);
    places.place(draft, ['c'], TWO);
    expect(cuts()).toEqual([0, 16 * 8]);
    places.split(draft, ['b'], [ONE, TWO]);
    expect(cuts()).toEqual([16 * 8, 16 * 8]);
  });
});

describe('timesOfLayers', () => {
  it('returns measured times if there is a calibration', () => {
    const draft = design();
    const { layers } = draft.model!.graph;
    expect(places.timesOfLayers(draft, layers)).toEqual({ unit: 'flops', times: [19200, 19200, 19200] });
    draft.calibration = {
      batch_size: 8,
      devices: [],
      link: { bytes_per_s: 1, latency_s: 0 },
      layer_seconds: { a: [1, 2, 5] },
      overhead_s: 0
    };
    expect(places.timesOfLayers(draft, layers)).toEqual({ unit: 'seconds', times: [29, 0, 0] });
  });
});
