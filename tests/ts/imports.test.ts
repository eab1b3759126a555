import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import ts from 'typescript';

// Imports point one way, from plugins towards api; ESLint says the same in the editor (eslint.config.mjs).
const ROOMS = ['api', 'model', 'plots', 'views', 'widgets', 'plugins'];
const SOURCES = path.join(__dirname, '../../src');

/** Every module with what it imports, types included: a circle of types is one too for who reads it. */
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

/** The modules from `module` back to itself; empty where no way leads there. */
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
  it('import each other in no circle', () => {
    expect([...imports.keys()].map(circle).filter(way => way.length > 0)).toEqual([]);
  });

  it('import in one direction only', () => {
    const roomOf = (module: string) => ROOMS.indexOf(module.split('/')[0]!);
    const wrong = [...imports].flatMap(([module, others]) =>
      others.filter(other => roomOf(module) >= 0 && roomOf(other) > roomOf(module)).map(other => `${module}: ${other}`)
    );
    expect(wrong).toEqual([]);
    // Beside the rooms: tokens are what plugins hand to each other, and what widgets get of that.
    const tokens = [...imports].filter(([, others]) => others.includes('tokens')).map(([module]) => module);
    expect(tokens.filter(module => module.includes('/') && !/^(widgets|plugins)\//.test(module))).toEqual([]);
  });

  it('have names of their own', () => {
    const names = [...imports.keys()].map(module => path.posix.basename(module));
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });
});
