import { ISignal, Signal } from '@lumino/signaling';

import type { Logged, OutputPage } from '../api/schema';
import { messageOf } from './errormessage';
import { StyledPart, styledParts } from './terminalcolours';

/** One line of a task's output, ready for display. `number` counts all lines of the run, so it is a stable key. */
export interface OutputLine {
  number: number;
  task: string;
  stream: string;
  /** Its index within the task's stream. */
  index?: number;
  time: number;
  text: string;
  /** The same text with colors, if it has any. */
  parts?: readonly StyledPart[];
  /** The number of missing lines, if the line represents a gap. */
  missing?: number;
}

/** The maximum number of lines of a run that a viewer keeps; the run's files contain all of them. */
export const MAX_LINES = 20_000;
/** The maximum number of characters of a run's output that a viewer keeps. */
export const MAX_CHARACTERS = 4_000_000;
/** Longer lines are truncated. */
export const MAX_LINE = 10_000;

// CSI sequences (colors, cursor movement), OSC sequences, and single-character escapes.
// eslint-disable-next-line no-control-regex
const ESCAPES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

/** A line as a terminal would show it: carriage returns go back to its beginning, backspaces delete one character. */
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

/** Remove the line with this number, if it is still there. Numbers ascend, and it is usually near the end. */
function remove(lines: OutputLine[], number: number): void {
  for (let index = lines.length - 1; index >= 0 && lines[index]!.number >= number; index--) {
    if (lines[index]!.number === number) {
      lines.splice(index, 1);
    }
  }
}

/** Appends lines in order of arrival. A line that follows one that ended in a carriage return overwrites it. */
class LineWriter {
  constructor(private _next = 0) {}

  /** Append the lines of an event to `lines`. */
  write(lines: OutputLine[], event: Logged): void {
    const source = sourceOf(event);
    for (const [offset, raw] of event.lines.entries()) {
      const written = shortened(raw);
      const text = shortened(terminalText(written));
      const line: OutputLine = {
        number: this._next++,
        task: event.task,
        stream: event.stream,
        index: event.first + offset,
        time: event.time,
        text
      };
      const parts = styledParts(written, text);
      if (parts) {
        line.parts = parts;
      }
      const open = this._open.get(source);
      if (open !== undefined) {
        // The previous line ended in a carriage return: a progress line, which this one overwrites.
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

  /** Append a line that states the number of missing lines. */
  writeGap(lines: OutputLine[], event: Logged, missing: number): void {
    const { task, stream, time, first } = event;
    lines.push({ number: this._next++, task, stream, index: first - missing, time, text: '', missing });
  }

  private readonly _open = new Map<string, number>();
}

function sourceOf(one: { task: string; stream: string }): string {
  return `${one.task}\n${one.stream}`;
}

function shortened(text: string): string {
  return text.length > MAX_LINE ? `${text.slice(0, MAX_LINE)} …` : text;
}

/** The number of oldest lines that must be dropped to stay within the limits. */
function excess(lines: readonly OutputLine[]): number {
  let characters = 0;
  for (let index = lines.length - 1; index >= 0; index--) {
    characters += lines[index]!.text.length;
    if (characters > MAX_CHARACTERS || lines.length - index > MAX_LINES) {
      return index + 1;
    }
  }
  return 0;
}

/** The newest output of a run's tasks in order of arrival, limited in size. */
export class OutputStore {
  /** Lines, oldest first. Replaced, never modified in place. */
  get lines(): readonly OutputLine[] {
    return this._lines;
  }

  /** The number of missing lines: the oldest ones, and those that arrived too fast to be read. */
  get dropped(): number {
    return this._dropped;
  }

  append(events: Logged[]): void {
    const lines = this._lines.slice();
    for (const event of events) {
      const source = sourceOf(event);
      const missing = event.first - (this._ends.get(source) ?? 0);
      if (missing > 0) {
        this._dropped += missing;
        this._writer.writeGap(lines, event, missing);
      }
      this._ends.set(source, event.first + event.lines.length);
      this._writer.write(lines, event);
    }
    for (const line of lines.splice(0, excess(lines))) {
      this._dropped += line.missing === undefined ? 1 : 0;
    }
    this._lines = lines;
  }

  private _lines: readonly OutputLine[] = [];
  private _dropped = 0;
  private readonly _ends = new Map<string, number>();
  private readonly _writer = new LineWriter();
}

/** Fetches a page of output before or after a time, of all tasks or of one. */
export type FetchOutput = (page: { before?: number; after?: number; task: string }) => Promise<OutputPage>;

/**
 * The visible output of a run: the newest as it arrives, or pages of older output after scrolling back. Only a window
 * of these pages is kept; it moves with the scroll position.
 */
export class OutputReading {
  constructor(
    private readonly _store: OutputStore,
    private readonly _fetch: FetchOutput
  ) {}

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The visible lines, oldest first. */
  get lines(): readonly OutputLine[] {
    return this._window ?? this._store.lines;
  }

  /** Whether the newest output is shown as it arrives. */
  get isLive(): boolean {
    return this._window === null;
  }

  /** Whether there is more output before the visible lines. */
  get hasEarlier(): boolean {
    return this._window === null ? this._store.dropped > 0 : this._hasEarlier;
  }

  /** Why the last page could not be loaded; empty if it was loaded. */
  get problem(): string {
    return this._problem;
  }

  /** Return to the newest output, of one task or of all. */
  follow(task = this._task): void {
    if (this._window !== null || task !== this._task) {
      this._window = null;
      this._task = task;
      this._asked += 1;
      this._isAsking = false;
      this._changed.emit();
    }
  }

  /** Prepend the previous page. */
  async earlier(): Promise<void> {
    if (this._isAsking || !this.hasEarlier) {
      return;
    }
    const { kept, before } = this._window === null ? this._begin() : { kept: this._window, before: this._before };
    const page = await this._ask({ before, task: this._task });
    if (page === null) {
      return;
    }
    // Skip lines that are already there: pages consist of whole blocks, and live output may begin within one.
    const known = new Map<string, number>();
    for (const line of kept) {
      known.set(sourceOf(line), Math.min(line.index ?? 0, known.get(sourceOf(line)) ?? Infinity));
    }
    const lines: OutputLine[] = [];
    const writer = new LineWriter(0);
    for (const event of page.events as unknown as Logged[]) {
      const fresh = Math.max(0, (known.get(sourceOf(event)) ?? Infinity) - event.first);
      writer.write(lines, fresh < event.lines.length ? { ...event, lines: event.lines.slice(0, fresh) } : event);
    }
    const first = (kept[0]?.number ?? 0) - lines.length;
    lines.forEach((line, index) => (line.number = first + index));
    const all = [...lines, ...kept];
    let end = all.length;
    while (end > MAX_LINES && end > lines.length) {
      end = blockBefore(all, end);
    }
    this._hasLater ||= end < all.length;
    this._window = all.slice(0, end);
    this._hasEarlier = page.earlier;
    this._before = page.events.length > 0 ? (page.events[0] as unknown as Logged).time : before;
    this._changed.emit();
  }

  /** Append the next page; at the end, switch to the newest output as it arrives. */
  async later(): Promise<void> {
    if (this._isAsking || this._window === null) {
      return;
    }
    const kept = this._window;
    const last = kept[kept.length - 1];
    if (!this._hasLater || last === undefined) {
      this.follow();
      return;
    }
    const page = await this._ask({ after: last.time, task: this._task });
    if (page === null) {
      return;
    }
    const lines = kept.slice();
    const writer = new LineWriter(last.number + 1);
    for (const event of page.events as unknown as Logged[]) {
      writer.write(lines, event);
    }
    const gone = excess(lines);
    if (gone > 0) {
      lines.splice(0, gone);
      this._hasEarlier = true;
      this._before = lines[0]!.time;
    }
    this._window = lines;
    this._hasLater = page.later;
    this._changed.emit();
  }

  /** The live lines that pages can be prepended to: those after the last gap. */
  private _begin(): { kept: OutputLine[]; before: number } {
    const live = this._store.lines.filter(line => this._task === '' || line.task === this._task);
    const gap = live.reduce((found, line, index) => (line.missing === undefined ? found : index), -1);
    const kept = live.slice(gap + 1);
    const known = live.slice(0, gap + 2);
    this._hasLater = false;
    // Slightly later than all omitted output, which may have arrived by another route in another order.
    return { kept, before: known.reduce((latest, line) => Math.max(latest, line.time), 0) + 1e-5 };
  }

  private async _ask(query: { before?: number; after?: number; task: string }): Promise<OutputPage | null> {
    const asked = ++this._asked;
    this._isAsking = true;
    try {
      const page = await this._fetch(query);
      if (asked === this._asked) {
        this._problem = '';
        return page;
      }
    } catch (error) {
      if (asked === this._asked) {
        this._problem = messageOf(error);
        this._changed.emit();
      }
    } finally {
      if (asked === this._asked) {
        this._isAsking = false;
      }
    }
    return null;
  }

  private _window: readonly OutputLine[] | null = null;
  private _task = '';
  private _before = 0;
  private _hasEarlier = false;
  private _hasLater = false;
  private _isAsking = false;
  private _asked = 0;
  private _problem = '';
  private readonly _changed = new Signal<this, void>(this);
}

/** The end of the part of `lines` that precedes the block ending at `end`. */
function blockBefore(lines: readonly OutputLine[], end: number): number {
  const { time } = lines[end - 1]!;
  while (end > 0 && lines[end - 1]!.time === time) {
    end -= 1;
  }
  return end;
}
