/** What a run did beside what a design has drawn. Pure. */

import type { Design, LayerPlace, RunInfo } from '../api/schema';
import { placesOf } from './layerplacement';
import { baseName } from './runnames';

/** A layer of a run, where it was to be, where it was, and where the drawing has it. */
export interface ComparedLayer extends LayerPlace {
  /** Null: the drawing has no such layer. */
  drawn: readonly string[] | null;
  /** It ran elsewhere than planned. */
  elsewhere: boolean;
  /** The run's plan for it is not the drawing's. */
  otherwise: boolean;
}

export interface Comparison {
  layers: readonly ComparedLayer[];
  elsewhere: number;
  otherwise: number;
  /** How many layers of the run are in the drawing. */
  common: number;
  /** How many layers the drawing has. */
  drawn: number;
  /** Whether the run's layers are the drawing's, all of them and no others. */
  sameModel: boolean;
}

/** Compare the layers of a run with a drawing, which may have changed since, or be of another model. */
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

/** A layer for which nothing was planned runs where its input is: that is not elsewhere. */
function ranElsewhere({ planned, actual }: LayerPlace): boolean {
  return planned.length > 0 && (planned.length !== actual.length || planned.some(device => !actual.includes(device)));
}

/** A run's plan has the devices of all replicas, those that are drawn first. */
function plannedOtherwise({ planned }: LayerPlace, drawn: readonly string[] | null, design: Design): boolean {
  return (
    drawn !== null &&
    (planned.length !== drawn.length * design.run.replicas || drawn.some((device, index) => planned[index] !== device))
  );
}

/** The pipelines that a drawing can be compared with, in the order in which they come. */
export interface ComparableRuns {
  /** On the design's cluster, or of a model of its model's name. */
  own: readonly RunInfo[];
  others: readonly RunInfo[];
}

/** Those of the runs that took a step: where the layers of another ran is not known. `cluster`: the design's. */
export function comparableRuns(runs: readonly RunInfo[], design: Design, cluster: string): ComparableRuns {
  const trained = runs.filter(
    run => run.strategy === 'pipeline' && (run.progress.done > 0 || run.state === 'succeeded')
  );
  const isOwn = (run: RunInfo) =>
    run.cluster === cluster || baseName(run.name) === baseName(design.model?.graph.model ?? '');
  return { own: trained.filter(isOwn), others: trained.filter(run => !isOwn(run)) };
}
