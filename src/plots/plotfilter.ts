/** Which plots a person asks for by words. Pure. */

import type { Plot } from './metricplots';

type Test = (text: string) => boolean;

// What is in no metric's name, and says that a word is meant as a regular expression.
const EXPRESSION = /[\^$|()[\]\\+?{}]|\.\*/;

function testOf(word: string): Test {
  if (EXPRESSION.test(word)) {
    try {
      const expression = new RegExp(word, 'i');
      return text => expression.test(text);
    } catch {
      // Not finished yet, or not meant as one.
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
 * Whether a plot is meant by a filter: each of its words is in a name or the title of the plot. A word may be a regular
 * expression, or have `*` for anything.
 */
export function filterOf(filter: string): (plot: Plot) => boolean {
  const tests = filter
    .split(/\s+/)
    .filter(word => word !== '')
    .map(testOf);
  return plot => tests.every(test => test(plot.title) || plot.names.some(test));
}
