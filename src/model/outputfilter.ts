/** Filters output lines by level and text. Pure. */

import type { OutputLine } from './output';

/** The severity of a line. */
export type Level = 'info' | 'warning' | 'error';

// The formats of Python's logging, absl and TensorFlow (`E0000 00:00:…`), and the last line of a traceback.
const ERROR = /\b(?:ERROR|CRITICAL|FATAL)\b|^[EF]\d{4} \d\d:|^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b(?::|$)/;
const WARNING = /\bWARN(?:ING)?\b|^W\d{4} \d\d:|\b\w*Warning:/;
const TRACEBACK = 'Traceback (most recent call last):';

/** The level of each line. A traceback is an error from its first line to the one that names the exception. */
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

/** The lines of at least this level that contain this text, ignoring case. Gaps are kept. */
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

/** Split a string at each match: every second part is a match. */
export function cutAt(text: string, find: string): string[] {
  if (find === '') {
    return [text];
  }
  const [lower, wanted] = [text.toLowerCase(), find.toLowerCase()];
  if (lower.length !== text.length) {
    return [text]; // lower-casing changed the length: the positions would not match
  }
  const parts: string[] = [];
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), text.slice(at, at + wanted.length));
    from = at + wanted.length;
  }
  return [...parts, text.slice(from)];
}
