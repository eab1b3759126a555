import type { ISignal } from '@lumino/signaling';

import type { Calibration, Design, LayerGraph, Placement, RunInfo, RunPlacement } from '../../../api/schema';
import type { KernelVariable } from '../../../model/kernels';

/** What the placement view asks of the server, of kernels and of notebooks. Long work ends when `signal` says so. */
export interface PlacementServices {
  /** Where the layers go that nobody has pinned. */
  place(design: Design, signal: AbortSignal): Promise<Placement>;
  /** Measure a design's model on the tasks of a running cluster. */
  profile(design: Design, cluster: string, signal: AbortSignal): Promise<Calibration>;
  /** The name of the cluster that is started from the design. */
  clusterName(): string;
  /** Names of clusters that run. */
  clusters(): readonly string[];
  readonly clustersChanged: ISignal<unknown, unknown>;
  /** Models in files beside the design, paths below the server's root. */
  modelFiles(): Promise<string[]>;
  describeFile(path: string, signal: AbortSignal): Promise<LayerGraph>;
  /** Models, and functions without arguments that may make one, among the variables of kernels that run. */
  kernelVariables(signal: AbortSignal): Promise<KernelVariable[]>;
  describeVariable(
    variable: Pick<KernelVariable, 'path' | 'name'>,
    signal: AbortSignal,
    chosen: boolean
  ): Promise<LayerGraph>;
  /** All runs, newest first. */
  runs(): readonly RunInfo[];
  readonly runsChanged: ISignal<unknown, unknown>;
  /** Where a run's layers were to be and were; rejects where nothing was traced. */
  runPlacement(run: string): Promise<RunPlacement>;
  /**
   * Save the design, and put the code that trains it into the notebook that was used last; where none is open it is
   * copied. Null where the design cannot be saved: the code would train what is in the file.
   */
  insertCode(): Promise<'notebook' | 'clipboard' | null>;
}
