/** Which lines of output a person wants to see. Pure. */

import type { OutputLine } from './output';

/** How bad what a line says is. */
export type Level = 'info' | 'warning' | 'error';

// Python's logging, absl's and TensorFlow's own (`E0000 00:00:…`), and what ends a traceback.
const ERROR = /\b(?:ERROR|CRITICAL|FATAL)\b|^[EF]\d{4} \d\d:|^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b(?::|$)/;
const WARNING = /\bWARN(?:ING)?\b|^W\d{4} \d\d:|\b\w*Warning:/;
const TRACEBACK = 'Traceback (most recent call last):';

/** The level of each line. A traceback is an error from its first line to the one that says what was raised. */
export function levelsOf(lines: readonly OutputLine[]): Level[] {
  const within = new Set<string>();
  return lines.map(({ task, stream, text }) => {
    const source = `${task}\n${stream}`;
    if (text.includes(TRACEBACK)) {
      within.add(source);
      return 'error';
    }
    if (within.has(source)) {
      if (!/^[\s|+]|^$/.test(text)) {
        within.delete(source);
      }
      return 'error';
    }
    return ERROR.test(text) ? 'error' : WARNING.test(text) ? 'warning' : 'info';
  });
}

const RANKS: readonly Level[] = ['info', 'warning', 'error'];

/** The lines that are at least of this level and have this text, in capitals or not. Gaps stay where they are. */
export function filtered(lines: readonly OutputLine[], wanted: { level: Level; find: string }): readonly OutputLine[] {
  const find = wanted.find.toLowerCase();
  if (wanted.level === 'info' && find === '') {
    return lines;
  }
  const least = RANKS.indexOf(wanted.level);
  const levels = least > 0 ? levelsOf(lines) : null;
  return lines.filter(
    (line, index) =>
      line.missing !== undefined ||
      ((levels === null || RANKS.indexOf(levels[index]!) >= least) && line.text.toLowerCase().includes(find))
  );
}

/** A text cut where something is found in it: every second part is what was looked for. */
export function cutAt(text: string, find: string): string[] {
  if (find === '') {
    return [text];
  }
  const [lower, wanted] = [text.toLowerCase(), find.toLowerCase()];
  if (lower.length !== text.length) {
    return [text]; // a letter that is longer in the other case: places would not be the same
  }
  const parts: string[] = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), text.slice(at, at + wanted.length));
    from = at + wanted.length;
  }
  return [...parts, text.slice(from)];
}
