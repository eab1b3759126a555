/** Finds the differences between runs of the same model or program. Pure. */

import type { RunInfo } from '../api/schema';
import { formatJobs } from './format';

/** The name without the number that is appended if a name is taken: `mlp` of `mlp 3`. */
export function baseName(name: string): string {
  return name.replace(/ [1-9]\d{0,8}$/, '');
}

// More differences, or longer ones, would not fit into a row.
const MOST = 2;
const LONGEST = 20;

/**
 * How each run differs from the others of the same model or program: `batch_size 128`, or its jobs if those differ. A
 * run that is the only one with its name, or does not differ from the others, is described by its jobs.
 */
export function differences(runs: readonly RunInfo[]): Map<string, string[]> {
  const groups = new Map<string, RunInfo[]>();
  for (const run of runs) {
    const key = JSON.stringify([baseName(run.name), run.kind]);
    const group = groups.get(key);
    if (group) {
      group.push(run);
    } else {
      groups.set(key, [run]);
    }
  }
  const found = new Map<string, string[]>();
  for (const group of groups.values()) {
    const varying = columnsOf(group).filter(column => new Set(column).size > 1);
    group.forEach((run, index) => {
      const said = varying.flatMap(column => column[index]!).filter(text => text !== '' && text.length <= LONGEST);
      found.set(run.id, said.length > 0 ? said.slice(0, MOST) : [formatJobs(run.jobs)]);
    });
  }
  return found;
}

/** The options of all runs, one list per option: their texts, empty for runs without the option. */
function columnsOf(runs: readonly RunInfo[]): string[][] {
  const names = [...new Set(runs.flatMap(run => Object.keys(run.parameters)))];
  return [
    ...names.map(name => runs.map(({ parameters }) => (name in parameters ? `${name} ${text(parameters[name])}` : ''))),
    runs.map(run => run.strategy),
    runs.map(run => formatJobs(run.jobs))
  ];
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}
