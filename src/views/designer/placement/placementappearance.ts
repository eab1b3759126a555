import React from 'react';

import type { Design, DesignReport, DeviceLoad } from '../../../api/schema';
import type { Comparison } from '../../../model/comparison';
import { LayerTree, shownNodes } from '../../../model/layergraph';
import { cutBytes, DeviceChoice, devicesOf, placesOf } from '../../../model/layerplacement';
import { taskColours } from '../../../plots/palette';
import { ColourBy, DrawnEdge, drawnEdges, Look, looksOf } from '../graph/graphappearance';

/** The appearance of a placement. Devices are keyed by their full names. */
export interface PlacementAppearance {
  devices: readonly DeviceChoice[];
  /** Keyed by task. */
  colours: ReadonlyMap<string, string>;
  /** Keyed by node. */
  looks: ReadonlyMap<string, Look>;
  edges: readonly DrawnEdge[];
  /** The number of layers on each device; a split layer counts for each of its devices. */
  counts: ReadonlyMap<string, number>;
  loads: ReadonlyMap<string, DeviceLoad>;
}

/** Everything that is drawn of a placement, recomputed when its inputs change. */
export function usePlacementAppearance(from: {
  tree: LayerTree;
  open: ReadonlySet<string>;
  design: Design;
  report: DesignReport | null;
  colourBy: ColourBy;
  /** Comparison with the overlaid run. */
  compared: Comparison | null;
}): PlacementAppearance {
  const { tree, open, design, report, colourBy, compared } = from;
  const devices = React.useMemo(() => devicesOf(design, report), [design, report]);
  const colours = React.useMemo(() => taskColours(devices.map(choice => choice.task)), [devices]);
  const differing = React.useMemo(
    () => new Set(compared?.layers.filter(layer => layer.elsewhere || layer.otherwise).map(({ layer }) => layer)),
    [compared]
  );
  const looks = React.useMemo(
    () => looksOf(tree, design, shownNodes(tree, open), open, colourBy, colours, differing),
    [tree, design, open, colourBy, colours, differing]
  );
  const edges = React.useMemo(() => drawnEdges(tree, open, cutBytes(tree, design)), [tree, open, design]);
  const counts = React.useMemo(() => countLayers(design), [design]);
  const predicted = report?.prediction?.devices;
  const loads = React.useMemo(() => new Map(predicted?.map(load => [load.device, load])), [predicted]);
  return { devices, colours, looks, edges, counts, loads };
}

function countLayers({ model, placement }: Design): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { id } of model?.graph.layers ?? []) {
    placesOf(placement, id).forEach(device => counts.set(device, (counts.get(device) ?? 0) + 1));
  }
  return counts;
}
