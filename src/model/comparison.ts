/** Compares the placement of a run with that of a design. Pure. */

import type { Design, LayerPlace, RunInfo } from '../api/schema';
import { placesOf } from './layerplacement';
import { baseName } from './runnames';

/** A layer of a run: its planned devices, its actual devices, and its devices in the drawing. */
export interface ComparedLayer extends LayerPlace {
  /** Null if the layer is not in the drawing. */
  drawn: readonly string[] | null;
  /** Whether the layer ran on other devices than planned. */
  elsewhere: boolean;
  /** Whether the run's plan for it differs from the drawing. */
  otherwise: boolean;
}

export interface Comparison {
  layers: readonly ComparedLayer[];
  elsewhere: number;
  otherwise: number;
  /** The number of the run's layers that are in the drawing. */
  common: number;
  /** The number of layers in the drawing. */
  drawn: number;
  /** Whether the run's layers are exactly those of the drawing. */
  sameModel: boolean;
}

/** Compare the layers of a run with a drawing, which may have changed since the run, or may be of another model. */
export function compare(ran: readonly LayerPlace[], design: Design): Comparison {
  const there = new Set(design.model?.graph.layers.map(layer => layer.id));
  const layers = ran.map(place => {
    const drawn = there.has(place.layer) ? placesOf(design.placement, place.layer) : null;
    return { ...place, drawn, elsewhere: ranElsewhere(place), otherwise: plannedOtherwise(place, drawn, design) };
  });
  const common = layers.filter(({ drawn }) => drawn !== null).length;
  return {
    layers,
    elsewhere: layers.filter(({ elsewhere }) => elsewhere).length,
    otherwise: layers.filter(({ otherwise }) => otherwise).length,
    common,
    drawn: there.size,
    sameModel: common === ran.length && common === there.size
  };
}

/** A layer without a planned device runs on the device of its input; this does not count as a difference. */
function ranElsewhere({ planned, actual }: LayerPlace): boolean {
  return planned.length > 0 && (planned.length !== actual.length || planned.some(device => !actual.includes(device)));
}

/** A run's plan includes the devices of all replicas; those of the drawing come first. */
function plannedOtherwise({ planned }: LayerPlace, drawn: readonly string[] | null, design: Design): boolean {
  return (
    drawn !== null &&
    (planned.length !== drawn.length * design.run.replicas || drawn.some((device, index) => planned[index] !== device))
  );
}

/** The pipeline runs that a drawing can be compared with, in the order in which they are listed. */
export interface ComparableRuns {
  /** Runs on the design's cluster, or of a model with the same name. */
  own: readonly RunInfo[];
  others: readonly RunInfo[];
}

/**
 * Only runs that have completed a step, because the placement of other runs is unknown. `cluster`: the name of the
 * design's cluster.
 */
export function comparableRuns(runs: readonly RunInfo[], design: Design, cluster: string): ComparableRuns {
  const trained = runs.filter(
    run => run.strategy === 'pipeline' && (run.progress.done > 0 || run.state === 'succeeded')
  );
  const isOwn = (run: RunInfo) =>
    run.cluster === cluster || baseName(run.name) === baseName(design.model?.graph.model ?? '');
  return { own: trained.filter(isOwn), others: trained.filter(run => !isOwn(run)) };
}
