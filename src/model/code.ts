/** The lines of Python that the panel puts into a notebook. Pure. */

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
