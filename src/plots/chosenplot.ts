import type { XAxis } from '../model/run';
import { ComparedRun, ComparedRuns } from './comparedruns';
import { Arrangement, FEW_PLOTS } from './plotarrangement';
import { filterOf } from './plotfilter';
import { Plot, plotsOf } from './metricplots';

/** A single plot over several runs: a metric with all its variants, or one variant alone. */
export class ChosenPlot extends ComparedRuns {
  constructor(
    runs: readonly ComparedRun[],
    x: XAxis,
    private readonly _metric: string
  ) {
    super(runs, x);
  }

  override plots(): Plot[] {
    const whole = super.plots().find(({ metric }) => metric === this._metric);
    const [found] = whole ? [whole] : this.names.includes(this._metric) ? plotsOf([this._metric]) : [];
    return found ? [{ ...found, heading: found.title }] : [];
  }

  override arrange(plots: readonly Plot[]): Arrangement {
    return { top: [...plots], families: [] };
  }
}

/**
 * The metrics of the plots that match a filter, pinned ones first; limited to a number that can be viewed without
 * headings.
 */
export function chosenPlots(source: ComparedRuns, filter: string, pinned: readonly string[]): string[] {
  const metrics = source
    .plots()
    .filter(filterOf(filter))
    .map(({ metric }) => metric);
  return [
    ...pinned.filter(metric => metrics.includes(metric)),
    ...metrics.filter(metric => !pinned.includes(metric))
  ].slice(0, FEW_PLOTS);
}
