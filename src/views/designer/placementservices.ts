import type { ISignal } from '@lumino/signaling';

import type { Calibration, Design, LayerGraph, Placement, RunInfo, RunPlacement } from '../../api/schema';
import type { KernelVariable } from '../../model/kernels';

/** What the placement view asks of the server, of kernels and of notebooks. Long work ends when `signal` says so. */
export interface PlacementServices {
  /** Where the layers go that nobody has pinned. */
  place(design: Design, signal: AbortSignal): Promise<Placement>;
  /** Measure a design's model on the tasks of a running cluster. */
  profile(design: Design, cluster: string, signal: AbortSignal): Promise<Calibration>;
  /** Names of clusters that run. */
  clusters(): readonly string[];
  readonly clustersChanged: ISignal<unknown, unknown>;
  /** Models in files beside the design, paths below the server's root. */
  modelFiles(): Promise<string[]>;
  describeFile(path: string, signal: AbortSignal): Promise<LayerGraph>;
  /** Models, and functions without arguments that may make one, among the variables of kernels that run. */
  kernelVariables(signal: AbortSignal): Promise<KernelVariable[]>;
  describeVariable(variable: Pick<KernelVariable, 'path' | 'name'>, signal: AbortSignal): Promise<LayerGraph>;
  /** Runs that trained through a placement, newest first. */
  runs(): readonly RunInfo[];
  readonly runsChanged: ISignal<unknown, unknown>;
  /** Where a run's layers were to be and were; rejects where nothing was traced. */
  runPlacement(run: string): Promise<RunPlacement>;
  /**
   * Put code into the notebook that was used last; false where none is open, and then it is copied. `code` is told the
   * design's path as the notebook has to call it.
   */
  insertCode(code: (path: string) => string): boolean;
}
