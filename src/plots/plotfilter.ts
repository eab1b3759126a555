/** Filters plots by the user's text. Pure. */

import type { Plot } from './metricplots';

type Test = (text: string) => boolean;

// Characters that do not occur in metric names: a word with one of them is a regular expression.
const EXPRESSION = /[\^$|()[\]\\+?{}]|\.\*/;

function testOf(word: string): Test {
  if (EXPRESSION.test(word)) {
    try {
      const expression = new RegExp(word, 'i');
      return text => expression.test(text);
    } catch {
      // Still incomplete, or not meant as a regular expression.
    }
  } else if (word.includes('*')) {
    const parts = word.split('*').map(part => part.replace(/\./g, '\\.'));
    const expression = new RegExp(parts.join('.*'), 'i');
    return text => expression.test(text);
  }
  const lower = word.toLowerCase();
  return text => text.toLowerCase().includes(lower);
}

/**
 * A predicate for plots that match a filter: each of its words must occur in one of the plot's names or its title. A
 * word may be a regular expression, or contain `*` as a wildcard.
 */
export function filterOf(filter: string): (plot: Plot) => boolean {
  const tests = filter
    .split(/\s+/)
    .filter(word => word !== '')
    .map(testOf);
  return plot => tests.every(test => test(plot.title) || plot.names.some(test));
}
