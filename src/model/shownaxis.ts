/** What plots of a run are over. Pure. */

/** What the server decimates series over. */
export type XAxis = 'step' | 'time';

/** What a person sees along x: the server's axes, and those counted otherwise. */
export type ShownAxis = XAxis | 'epoch' | 'examples' | 'wall';

/** Whose points these axes are of. */
export function axisBehind(shown: ShownAxis): XAxis {
  return shown === 'time' || shown === 'wall' ? 'time' : 'step';
}

/** How many steps an epoch has, and how many examples a step; null where that is not known. */
export interface Pace {
  epoch: number | null;
  examples: number | null;
}

/** From the run's progress, the end of its newest epoch, and what it was submitted with. */
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

/** How many of the axis's units one step, or second, is. */
export function scaleOf(shown: ShownAxis, pace: Pace): number {
  if (shown === 'epoch') {
    return pace.epoch ? 1 / pace.epoch : 1;
  }
  return shown === 'examples' ? (pace.examples ?? 1) : 1;
}
