import type { Logged } from '../api/schema';

/** One line of a task's output, ready to be shown. `number` counts all lines of the run, so it is a stable key. */
export interface OutputLine {
  number: number;
  task: string;
  stream: string;
  time: number;
  text: string;
}

/** How many lines a viewer keeps of a run; the store has them all. */
export const MAX_LINES = 20_000;

// CSI sequences (colours, cursor movement), OSC sequences, and single-character escapes.
// eslint-disable-next-line no-control-regex
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

/** What a terminal would show of a line: carriage returns go back to its beginning, backspaces take one character. */
export function terminalText(raw: string): string {
  let text = raw.replace(ESCAPES, '');
  if (text.includes('\r')) {
    text = text.split('\r').reduce((shown, part) => (part === '' ? shown : part + shown.slice(part.length)), '');
  }
  if (text.includes('\b')) {
    const kept: string[] = [];
    for (const character of text) {
      if (character === '\b') {
        kept.pop();
      } else {
        kept.push(character);
      }
    }
    text = kept.join('');
  }
  return text;
}

/** Take the line of this number out, if it is still there. Numbers ascend, and it is most often near the end. */
function remove(lines: OutputLine[], number: number): void {
  for (let index = lines.length - 1; index >= 0 && lines[index]!.number >= number; index--) {
    if (lines[index]!.number === number) {
      lines.splice(index, 1);
    }
  }
}

/** The output of a run's tasks, in the order in which it came, capped. */
export class OutputStore {
  /** Lines, oldest first. Replaced, never changed in place. */
  get lines(): readonly OutputLine[] {
    return this._lines;
  }

  /** How many of the oldest lines are no longer kept. */
  get dropped(): number {
    return this._dropped;
  }

  append(events: Logged[]): void {
    const lines = this._lines.slice();
    for (const event of events) {
      const source = `${event.task}\n${event.stream}`;
      for (const raw of event.lines) {
        const line: OutputLine = {
          number: this._next++,
          task: event.task,
          stream: event.stream,
          time: event.time,
          text: terminalText(raw)
        };
        const open = this._open.get(source);
        if (open !== undefined) {
          // The line before ended in a carriage return: a progress line, which this one is written over.
          remove(lines, open);
        }
        if (raw.endsWith('\r')) {
          this._open.set(source, line.number);
        } else {
          this._open.delete(source);
        }
        lines.push(line);
      }
    }
    const excess = lines.length - MAX_LINES;
    if (excess > 0) {
      lines.splice(0, excess);
      this._dropped += excess;
    }
    this._lines = lines;
  }

  private _lines: readonly OutputLine[] = [];
  private _next = 0;
  private _dropped = 0;
  private readonly _open = new Map<string, number>();
}
