/** Groups plots under headings, so that users find their way among hundreds of them. Pure. */

import { isImportant, Plot } from './metricplots';

/** The plots under one heading; it has either plots of its own, or subfamilies. */
export interface Family {
  /** The same for all runs with such metrics, so that a heading that was opened in one run is open in the others. */
  key: string;
  /** Empty for the remaining plots. */
  title: string;
  plots: Plot[];
  families: Family[];
  /** Number of plots in it and its subfamilies. */
  count: number;
}

export interface Arrangement {
  /** Plots without a heading, above the others. */
  top: Plot[];
  families: Family[];
}

/** The maximum number of plots that need no headings and whose families are open. */
export const FEW_PLOTS = 24;
// At least this many names that differ only in their numbers form a family.
const ALIKE = 8;
const REST = '\u0000rest';

/**
 * Put pinned plots and those without a prefix on top, and the others under headings: `layer_1/norm` is under `layer_1`.
 */
export function arrange(plots: readonly Plot[], pinned: readonly string[]): Arrangement {
  const top = pinned.flatMap(metric => plots.find(plot => plot.metric === metric) ?? []);
  const taken = new Set(top);
  const others = plots.filter(plot => !taken.has(plot));
  const numbered = alike(
    others.filter(plot => prefix(plot) === ''),
    plot => plot.metric
  );
  const families = new Map<string, Plot[]>();
  const plain: Plot[] = [];
  for (const plot of others) {
    const key = prefix(plot) || numbered.get(plot);
    if (key === undefined) {
      plain.push(plot);
    } else {
      add(families, key, plot);
    }
  }
  const many = plots.length > FEW_PLOTS && plain.length > FEW_PLOTS;
  top.push(...plain.filter(plot => !many || isImportant(plot)));
  const rest = plain.filter(plot => many && !isImportant(plot));
  const named = [...families].map(([key, members]) => family(key, key, members));
  return { top, families: [...nested(named), ...(rest.length > 0 ? [family(REST, '', rest)] : [])] };
}

/** The families that are open by default: the first ones, while few plots are visible. */
export function openByDefault({ top, families }: Arrangement): Set<string> {
  const open = new Set<string>();
  let shown = top.length;
  const walk = (family: Family) => {
    if (family.families.length > 0) {
      if (shown + family.count <= FEW_PLOTS) {
        open.add(family.key);
        family.families.forEach(walk);
      }
    } else if (shown + family.count <= FEW_PLOTS || shown === 0) {
      open.add(family.key);
      shown += family.count;
    }
  };
  families.forEach(walk);
  return open;
}

/** Replace each plot by others; the headings keep their counts. */
export function replacePlots(arrangement: Arrangement, by: (plot: Plot) => Plot[]): Arrangement {
  const inFamily = (family: Family): Family => ({
    ...family,
    plots: family.plots.flatMap(by),
    families: family.families.map(inFamily)
  });
  return { top: arrangement.top.flatMap(by), families: arrangement.families.map(inFamily) };
}

/** The keys of all families. */
export function keysOf(families: readonly Family[]): string[] {
  return families.flatMap(family => [family.key, ...keysOf(family.families)]);
}

/** A plot's name without the part that its family's heading already contains. */
export function shortTitle(plot: Plot): string {
  if (plot.heading !== undefined) {
    return plot.heading;
  }
  const cut = prefix(plot);
  if (cut === '') {
    return plot.title;
  }
  return [plot.metric.slice(cut.length + 1), plot.task].filter(part => part !== undefined).join(' · ');
}

function family(key: string, title: string, plots: Plot[]): Family {
  return { key, title, plots, families: [], count: plots.length };
}

/** The part before the first slash that has something on both sides. */
function prefix(plot: Plot): string {
  const slash = plot.metric.indexOf('/', 1);
  return slash < 0 || slash === plot.metric.length - 1 ? '' : plot.metric.slice(0, slash);
}

/** Put `layer_1`, `layer_2` and others like them under one heading, `layer_*`. */
function nested(families: readonly Family[]): Family[] {
  const stems = alike(families, one => one.key);
  const outer = new Map<string, Family>();
  const result: Family[] = [];
  for (const one of families) {
    const stem = stems.get(one);
    if (stem === undefined) {
      result.push(one);
      continue;
    }
    let holder = outer.get(stem);
    if (!holder) {
      holder = { key: `${stem}/`, title: stem, plots: [], families: [], count: 0 };
      outer.set(stem, holder);
      result.push(holder);
    }
    holder.families.push(one);
    holder.count += one.count;
  }
  return result;
}

/** The common name of each item that is one of many whose names differ only in their numbers. */
function alike<T>(items: readonly T[], name: (item: T) => string): Map<T, string> {
  const stems = new Map<string, T[]>();
  for (const item of items) {
    const stem = name(item).replace(/\d+/g, '*');
    if (stem !== name(item)) {
      add(stems, stem, item);
    }
  }
  const together = [...stems.values()].filter(members => members.length >= ALIKE);
  return new Map(
    together.flatMap(members => {
      const called = common(members.map(name));
      return members.map((item): [T, string] => [item, called]);
    })
  );
}

/** The common form of names that differ only in their numbers, with `*` for the numbers that vary: `class_*_f1`. */
function common(names: readonly string[]): string {
  const numbers = names.map(one => one.match(/\d+/g) ?? []);
  let index = -1;
  return names[0]!.replace(/\d+/g, number => {
    index += 1;
    return numbers.every(others => others[index] === number) ? number : '*';
  });
}

function add<T>(lists: Map<string, T[]>, key: string, item: T): void {
  const list = lists.get(key);
  if (list) {
    list.push(item);
  } else {
    lists.set(key, [item]);
  }
}
