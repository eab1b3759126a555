/** The x axes of a run's plots. Pure. */

/** The axes over which the server decimates series. */
export type XAxis = 'step' | 'time';

/** The x axes that the user can choose: the server's, and those derived from them. */
export type ShownAxis = XAxis | 'epoch' | 'examples' | 'wall';

/** The server's axis from which an axis is derived. */
export function axisBehind(shown: ShownAxis): XAxis {
  return shown === 'time' || shown === 'wall' ? 'time' : 'step';
}

/** Steps per epoch and examples per step; null if unknown. */
export interface Pace {
  epoch: number | null;
  examples: number | null;
}

/** Derive the pace from the run's progress, the end of its latest epoch, and its parameters. */
export function paceOf(
  progress: { total: number; unit: string; epochs: number },
  ended: { epoch: number; step: number } | null,
  parameters: Readonly<Record<string, unknown>>
): Pace {
  const planned = progress.unit === 'step' && progress.total > 0 && progress.epochs > 0;
  const epoch = ended ? ended.step / (ended.epoch + 1) : planned ? progress.total / progress.epochs : null;
  const { batch_size: batch, examples } = parameters;
  if (typeof batch === 'number' && batch > 0) {
    return { epoch, examples: batch };
  }
  return { epoch, examples: typeof examples === 'number' && examples > 0 && epoch ? examples / epoch : null };
}

/** The axis's units per step or second. */
export function scaleOf(shown: ShownAxis, pace: Pace): number {
  if (shown === 'epoch') {
    return pace.epoch ? 1 / pace.epoch : 1;
  }
  return shown === 'examples' ? (pace.examples ?? 1) : 1;
}
