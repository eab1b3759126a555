/** The contents of the status line of a notebook's cluster. Pure. */

import type { ClusterInfo, RunInfo } from '../api/schema';
import { fractionDone, isFinal, objectiveText } from './runstate';
import { formatPercent } from './format';

/** A cluster's most relevant run, and the number of other active runs. */
export interface ClusterRun {
  run: RunInfo;
  others: number;
}

/** The run that represents a cluster: the newest active one, or else the newest that has ended on it. */
export function runOn(cluster: Pick<ClusterInfo, 'name' | 'created'>, runs: readonly RunInfo[]): ClusterRun | null {
  const here = runs.filter(run => run.cluster === cluster.name);
  const active = here.filter(run => !isFinal(run.state));
  // Another cluster may have had the same name before.
  const run = newest(active) ?? newest(here.filter(({ created }) => created >= cluster.created));
  return run ? { run, others: active.filter(other => other !== run).length } : null;
}

function newest(runs: readonly RunInfo[]): RunInfo | undefined {
  return runs.reduce<RunInfo | undefined>((best, run) => (best && best.created >= run.created ? best : run), undefined);
}

/** A run's progress and its objective's value, if known: `['58%', 'loss 0.031']`. */
export function factsOf(run: RunInfo): string[] {
  const fraction = isFinal(run.state) ? null : fractionDone(run);
  const value = objectiveText(run);
  return [fraction === null ? '' : formatPercent(fraction), value ? value.join(' ') : ''].filter(fact => fact !== '');
}
