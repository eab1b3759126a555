/** The lines of Python that the panel and the designer put into a notebook. Pure. */

import type { RunSettings } from '../api/schema';

const IMPORT = 'import jupyter_dtf as dtf';
const IMPORTED = /^\s*import\s+jupyter_dtf\s+as\s+dtf\s*$/m;

/** Whether a cell already imports the package under its usual name. */
export function hasImport(source: string): boolean {
  return IMPORTED.test(source);
}

/** The code that gives a notebook the cluster of this name. */
export function connectCode(name: string, withImport: boolean): string {
  const line = `cluster = dtf.connect(${JSON.stringify(name)})`;
  return withImport ? `${IMPORT}\n\n${line}` : line;
}

/** The code that trains a design. `path`: of the design, as the notebook has to call it; `model`: the variable. */
export function fitCode(path: string, model: string, run: RunSettings): string {
  const { batch_size: batch, epochs, microbatches, replicas } = run;
  const more = replicas > 1 ? `, replicas=${replicas}` : '';
  return [
    `run = cluster.fit(`,
    `    ${model}, x, y, batch_size=${batch}, epochs=${epochs},`,
    `    strategy=dtf.Pipeline(${JSON.stringify(path)}, microbatches=${microbatches}${more}),`,
    `)`
  ].join('\n');
}
