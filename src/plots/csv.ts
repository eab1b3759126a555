/** A plot's data as a table. Pure. */

import type { PlotLine } from './metricplots';

/** `line,task,x,y`, one row for each point that is drawn: long lines are decimated. */
export function csvOf(lines: readonly (PlotLine & { name: string })[], x: string): string {
  const rows = [['line', 'task', x, 'value'].map(quoted).join(',')];
  for (const { name, task, x: at, y } of lines) {
    const start = `${quoted(name)},${quoted(task === '' ? 'mean' : task)}`;
    at.forEach((value, index) => rows.push(`${start},${value},${Number.isFinite(y[index]!) ? y[index] : ''}`));
  }
  return `${rows.join('\r\n')}\r\n`;
}

/**
 * Quoted as in RFC 4180. Anything that a spreadsheet would interpret as a formula is escaped: names come from programs.
 */
function quoted(text: string): string {
  const harmless = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replace(/"/g, '""')}"` : harmless;
}
