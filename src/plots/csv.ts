/** What a plot draws, as a table. Pure. */

import type { PlotLine } from './metricplots';

/** `line,task,x,y`, a row for each point that is drawn: of long lines not every point that was reported is. */
export function csvOf(lines: readonly (PlotLine & { name: string })[], x: string): string {
  const rows = [['line', 'task', x, 'value'].map(quoted).join(',')];
  for (const { name, task, x: at, y } of lines) {
    const start = `${quoted(name)},${quoted(task === '' ? 'mean' : task)}`;
    at.forEach((value, index) => rows.push(`${start},${value},${Number.isFinite(y[index]!) ? y[index] : ''}`));
  }
  return `${rows.join('\r\n')}\r\n`;
}

/** As RFC 4180 has it. What a spreadsheet would take for a formula is text: names come from programs. */
function quoted(text: string): string {
  const harmless = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replace(/"/g, '""')}"` : harmless;
}
