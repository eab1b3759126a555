/** How many plots are put under headings, so that a person finds their way among hundreds of them. Pure. */

import { isImportant, Plot } from './metricplots';

/** Plots under one heading; it has plots of its own, or families below it. */
export interface Family {
  /** The same for every run that has such metrics: what was opened once is open again. */
  key: string;
  /** Empty for what is left over. */
  title: string;
  plots: Plot[];
  families: Family[];
  /** Plots in it and below it. */
  count: number;
}

export interface Arrangement {
  /** Without a heading, above the rest. */
  top: Plot[];
  families: Family[];
}

/** So many plots can be looked through without headings; families stay open up to this. */
export const FEW_PLOTS = 24;
// So many names that differ in their numbers alone are one family.
const ALIKE = 8;
const REST = '\u0000rest';

/** Put what is pinned and what has no prefix on top, and the rest under headings: `layer_1/norm` is under `layer_1`. */
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

/** What is open where nobody said otherwise: the first families, while there are few plots in sight. */
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

/** Others in the place of each plot; the headings count what they counted. */
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

/** What is left of a plot's name below its family's heading. */
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

/** Up to the first slash that has something on both sides. */
function prefix(plot: Plot): string {
  const slash = plot.metric.indexOf('/', 1);
  return slash < 0 || slash === plot.metric.length - 1 ? '' : plot.metric.slice(0, slash);
}

/** `layer_1`, `layer_2` and many more like them are below one heading, `layer_*`. */
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

/** What has many others like it, but for the numbers in its name, and what they are called together. */
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

/** Names that differ in their numbers alone as one, with `*` for the numbers that differ: `class_*_f1`. */
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
