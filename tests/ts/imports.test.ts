import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import ts from 'typescript';

// Modules may import only modules of the same or an earlier folder. ESLint has the same rule (eslint.config.mjs).
const ROOMS = ['api', 'model', 'plots', 'views', 'widgets', 'plugins'];
const SOURCES = path.join(__dirname, '../../src');

/** The imports of each module, including imports of types only: these must not be circular either. */
const imports = new Map<string, string[]>();
for (const file of readdirSync(SOURCES, { recursive: true, encoding: 'utf8' })) {
  if (/\.tsx?$/.test(file) && !file.endsWith('.d.ts')) {
    const { importedFiles } = ts.preProcessFile(readFileSync(path.join(SOURCES, file), 'utf8'), true, true);
    const own = importedFiles.filter(({ fileName }) => fileName.startsWith('.'));
    imports.set(
      plain(file),
      own.map(({ fileName }) => plain(path.join(path.dirname(file), fileName)))
    );
  }
}

function plain(file: string): string {
  return file.replace(/\.(tsx?|js)$/, '').replaceAll(path.sep, '/');
}

/** Returns the modules on a circular path from `module` to itself, or none if there is no such path. */
function circle(module: string): string[] {
  const seen = new Set<string>();
  const from = (at: string, way: string[]): string[] => {
    for (const next of imports.get(at) ?? []) {
      if (next === module) {
        return [...way, next];
      }
      if (!seen.has(next)) {
        seen.add(next);
        const found = from(next, [...way, next]);
        if (found.length > 0) {
          return found;
        }
      }
    }
    return [];
  };
  return from(module, [module]);
}

describe('the modules of src', () => {
  it('have no circular imports', () => {
    expect([...imports.keys()].map(circle).filter(way => way.length > 0)).toEqual([]);
  });

  it('import only from their own folder or earlier ones', () => {
    const roomOf = (module: string) => ROOMS.indexOf(module.split('/')[0]!);
    const wrong = [...imports].flatMap(([module, others]) =>
      others.filter(other => roomOf(module) >= 0 && roomOf(other) > roomOf(module)).map(other => `${module}: ${other}`)
    );
    expect(wrong).toEqual([]);
    // The tokens, which are in no folder, are only for plugins, which exchange them, and widgets.
    const tokens = [...imports].filter(([, others]) => others.includes('tokens')).map(([module]) => module);
    expect(tokens.filter(module => module.includes('/') && !/^(widgets|plugins)\//.test(module))).toEqual([]);
  });

  it('have unique names', () => {
    const names = [...imports.keys()].map(module => path.posix.basename(module));
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });
});
