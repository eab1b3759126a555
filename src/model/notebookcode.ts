/** The Python code that the panel and the designer insert into a notebook. Pure. */

import { PathExt } from '@jupyterlab/coreutils';

import type { Design, ModelSource } from '../api/schema';
import { clusterName } from './clusterdesign';

const IMPORT = 'import jupyter_dtf as dtf';
const IMPORTED = importOf('jupyter_dtf\\s+as\\s+dtf');
const KERAS_IMPORTED = importOf('keras');
const CLUSTER_ASSIGNED = /^\s*cluster\s*=(?!=)/m;
const NOTEBOOKS_CLUSTER = /^[^#\n]*\bdtf\.cluster\(/m;
/** Files that Keras can load as a trainable model; SavedModels are not among them. */
const KERAS_FILE = /\.(?:keras|h5)$/;

/** Where code is inserted. */
export interface CodePlace {
  /** The folder that paths in the code are relative to, below the server's root. */
  folder: string;
  /** The source of the code cells above. */
  cells: readonly string[];
}

/**
 * The code that gives a notebook its cluster. It is self-contained, since it is not known which cells have been run.
 */
export const NOTEBOOK_CODE = `${IMPORT}\n\ncluster = dtf.cluster()`;

/** Whether any cell already requests the notebook's cluster, so that no more code is needed. */
export function hasNotebookCode(cells: readonly string[]): boolean {
  return cells.some(cell => NOTEBOOKS_CLUSTER.test(cell));
}

/** The code that connects the notebook to the cluster of this name. It is self-contained as well. */
export function connectCode(name: string): string {
  return `${IMPORT}\n\ncluster = dtf.cluster(${JSON.stringify(name)})`;
}

function connectLine(name: string): string {
  return `cluster = dtf.connect(${JSON.stringify(name)})`;
}

/**
 * The code that trains a design, with everything that the notebook still lacks: apart from the data, it is
 * self-contained. `path`: the design's path, below the server's root; `running`: the name of its cluster, if running.
 */
export function fitCode(design: Design, path: string, running: string | null, place: CodePlace): string {
  const { batch_size: batch, epochs, microbatches, replicas } = design.run;
  const source = design.model?.source;
  const file = JSON.stringify(PathExt.relative(place.folder, path));
  const more = replicas > 1 ? `, replicas=${replicas}` : '';
  // The designer finds its cluster by this name.
  const named = design.cluster.name === '' ? `, name=${JSON.stringify(clusterName(path))}` : '';
  const cluster = `cluster = dtf.Cluster(design=${file}${named})`;
  const before = [importLines(source, place), [clusterLine(cluster, running, place), modelLine(source, place)]]
    .map(lines => lines.filter(line => line !== '').join('\n'))
    .filter(lines => lines !== '');
  const fit = [
    `run = cluster.fit(`,
    `    ${source?.variable || 'model'}, x, y, batch_size=${batch}, epochs=${epochs},`,
    `    strategy=dtf.Pipeline(${file}, microbatches=${microbatches}${more}),`,
    `)`
  ].join('\n');
  return before.length > 0 ? `${before.join('\n\n')}\n${fit}` : fit;
}

function importLines(source: ModelSource | undefined, { cells }: CodePlace): string[] {
  return [
    cells.some(cell => IMPORTED.test(cell)) ? '' : IMPORT,
    isKerasFile(source) && !cells.some(cell => KERAS_IMPORTED.test(cell)) ? 'import keras' : ''
  ];
}

/** Empty if the notebook already has a cluster: the user may have created it with other arguments. */
function clusterLine(start: string, running: string | null, { cells }: CodePlace): string {
  if (cells.some(cell => CLUSTER_ASSIGNED.test(cell))) {
    return '';
  }
  return running === null ? start : connectLine(running);
}

function modelLine(source: ModelSource | undefined, { folder, cells }: CodePlace): string {
  if (source?.kind !== 'file') {
    return '';
  }
  const file = JSON.stringify(PathExt.relative(folder, source.path));
  const line = isKerasFile(source)
    ? `model = keras.models.load_model(${file})`
    : `# model: the compiled Keras model that was exported to ${file}`;
  return cells.some(cell => cell.split('\n').includes(line)) ? '' : line;
}

function isKerasFile(source: ModelSource | undefined): boolean {
  return source?.kind === 'file' && KERAS_FILE.test(source.path);
}

/** Matches code that imports a module, alone or together with others. */
function importOf(module: string): RegExp {
  return new RegExp(`^\\s*import\\s+(?:[^#\\n]*,\\s*)?${module}\\s*(?:[,;#].*)?$`, 'm');
}
