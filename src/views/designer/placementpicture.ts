import React from 'react';

import type { Design, DesignReport, DeviceLoad, RunPlacement } from '../../api/schema';
import { LayerTree, shownNodes } from '../../model/layergraph';
import { cutBytes, DeviceChoice, devicesOf } from '../../model/places';
import { taskColours } from '../../plots/palette';
import { ColourBy, DrawnEdge, drawnEdges, Look, looksOf } from './graphpicture';
import { differs } from './placementcompare';

/** What a placement looks like. Maps of devices are by their full names. */
export interface Picture {
  devices: readonly DeviceChoice[];
  /** By task. */
  colours: ReadonlyMap<string, string>;
  /** By node. */
  looks: ReadonlyMap<string, Look>;
  edges: readonly DrawnEdge[];
  /** How many layers each device has; one that is split counts on each. */
  counts: ReadonlyMap<string, number>;
  loads: ReadonlyMap<string, DeviceLoad>;
}

/** Everything that is drawn of a placement, computed again where what it depends on is another. */
export function usePicture(from: {
  tree: LayerTree;
  open: ReadonlySet<string>;
  design: Design;
  report: DesignReport | null;
  colourBy: ColourBy;
  /** The run that is laid over. */
  ran: RunPlacement | null;
}): Picture {
  const { tree, open, design, report, colourBy, ran } = from;
  const devices = React.useMemo(() => devicesOf(design, report), [design, report]);
  const colours = React.useMemo(() => taskColours(devices.map(choice => choice.task)), [devices]);
  const differing = React.useMemo(() => new Set(ran?.layers.filter(differs).map(place => place.layer)), [ran]);
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

function countLayers(design: Design): Map<string, number> {
  const { devices, splits } = design.placement;
  const counts = new Map<string, number>();
  [...Object.values(devices), ...Object.values(splits).flat()].forEach(device =>
    counts.set(device, (counts.get(device) ?? 0) + 1)
  );
  return counts;
}
