/** The lines of Python that the panel and the designer put into a notebook. Pure. */

import { PathExt } from '@jupyterlab/coreutils';

import type { Design, ModelSource } from '../api/schema';
import { clusterName } from './clusterdesign';

const IMPORT = 'import jupyter_dtf as dtf';
const IMPORTED = importOf('jupyter_dtf\\s+as\\s+dtf');
const KERAS_IMPORTED = importOf('keras');
const CLUSTER_ASSIGNED = /^\s*cluster\s*=(?!=)/m;
const NOTEBOOKS_CLUSTER = /^[^#\n]*\bdtf\.cluster\(/m;
/** Files that Keras can load as a model that trains; a SavedModel is none. */
const KERAS_FILE = /\.(?:keras|h5)$/;

/** Where code is put. */
export interface CodePlace {
  /** The folder that its paths start from, below the server's. */
  folder: string;
  /** What the cells of code above it say. */
  cells: readonly string[];
}

/** The code that gives a notebook its cluster. It runs by itself: nobody knows which cells have been run. */
export const NOTEBOOK_CODE = `${IMPORT}\n\ncluster = dtf.cluster()`;

/** Whether some cell asks for the notebook's cluster, so that it needs no more code. */
export function hasNotebookCode(cells: readonly string[]): boolean {
  return cells.some(cell => NOTEBOOKS_CLUSTER.test(cell));
}

/** The code that makes the cluster of this name the notebook's. It runs by itself as well. */
export function connectCode(name: string): string {
  return `${IMPORT}\n\ncluster = dtf.cluster(${JSON.stringify(name)})`;
}

function connectLine(name: string): string {
  return `cluster = dtf.connect(${JSON.stringify(name)})`;
}

/**
 * The code that trains a design, with all that it needs and the notebook has not: but for the data, it runs by itself.
 * `path`: of the design, below the server's folder; `running`: the name of its cluster, if that runs.
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

/** Nothing where the notebook has a cluster: a person may have put it there with other arguments. */
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

/** Matches code that imports a module, alone or beside others. */
function importOf(module: string): RegExp {
  return new RegExp(`^\\s*import\\s+(?:[^#\\n]*,\\s*)?${module}\\s*(?:[,;#].*)?$`, 'm');
}
