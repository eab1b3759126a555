import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';

import type { Design } from '../api/schema';
import type { DesignModel } from '../model/design';
import type { IDtf } from '../tokens';
import type { PlacementServices } from '../views/designer/placement/placementservices';

/** An open design, with the objects that its views and its toolbar use. */
export interface OpenDesign {
  readonly context: DocumentRegistry.IContext<DocumentRegistry.ICodeModel>;
  readonly design: DesignModel;
  /** The name of the cluster that is started from here. */
  readonly clusterName: string;
}

/** The parts of the application that a designer uses; provided by the plugin. */
export interface DesignerOptions {
  dtf: IDtf;
  contents: Contents.IManager;
  placement: (document: OpenDesign) => PlacementServices;
  start(document: OpenDesign): Promise<void>;
  stop(cluster: string): void;
  openText(path: string, line: number, column: number): void;
  exportScript(document: OpenDesign): Promise<void>;
  copy(text: string): void;
  /** Save a design in the folder of another one, and open it. */
  openDesign(beside: OpenDesign, design: Design): void;
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
}
