import type { ISignal } from '@lumino/signaling';

import type { Calibration, Design, LayerGraph, Placement, RunInfo, RunPlacement } from '../../../api/schema';
import type { KernelVariable } from '../../../model/kernels';

/**
 * The services of the server, of kernels and of notebooks that the placement view uses. Long tasks are cancelled
 * through `signal`.
 */
export interface PlacementServices {
  /** Place the layers that are not pinned. */
  place(design: Design, signal: AbortSignal): Promise<Placement>;
  /** Measure a design's model on the tasks of a running cluster. */
  profile(design: Design, cluster: string, signal: AbortSignal): Promise<Calibration>;
  /** The name of the cluster that is started from the design. */
  clusterName(): string;
  /** The names of running clusters. */
  clusters(): readonly string[];
  readonly clustersChanged: ISignal<unknown, unknown>;
  /** Model files next to the design, as paths below the server's root. */
  modelFiles(): Promise<string[]>;
  describeFile(path: string, signal: AbortSignal): Promise<LayerGraph>;
  /** Variables of running kernels that are models, or functions without arguments that may return one. */
  kernelVariables(signal: AbortSignal): Promise<KernelVariable[]>;
  describeVariable(
    variable: Pick<KernelVariable, 'path' | 'name'>,
    signal: AbortSignal,
    chosen: boolean
  ): Promise<LayerGraph>;
  /** All runs, newest first. */
  runs(): readonly RunInfo[];
  readonly runsChanged: ISignal<unknown, unknown>;
  /** The planned and the actual placement of a run's layers; rejects if nothing was traced. */
  runPlacement(run: string): Promise<RunPlacement>;
  /**
   * Save the design, and insert the code that trains it into the notebook that was used last; if none is open, copy it
   * to the clipboard. Null if the design cannot be saved, since the code trains the saved file.
   */
  insertCode(): Promise<'notebook' | 'clipboard' | null>;
}
