import { describe, expect, it } from 'vitest';

import type { Logged, OutputPage } from '../../../src/api/schema';
import {
  MAX_CHARACTERS,
  MAX_LINE,
  MAX_LINES,
  OutputReading,
  OutputStore,
  terminalText
} from '../../../src/model/output';

const logged = (task: string, lines: string[]) => ({
  type: 'log' as const,
  time: 1,
  attempt: 0,
  task,
  stream: 'stdout',
  first: 0,
  lines,
  kept: true
});

describe('terminalText', () => {
  it.each([
    ['plain', 'plain'],
    ['10%\r20%\r30%', '30%'],
    ['a longer line\rshort', 'shortger line'],
    ['done\r', 'done'],
    ['\x1b[1m3/10\x1b[0m \x1b[32m━━━\x1b[0m', '3/10 ━━━'],
    ['\x1b]0;title\x07text', 'text'],
    ['abc\b\bd', 'ad']
  ])('%j is shown as %j', (raw, shown) => expect(terminalText(raw)).toBe(shown));
});

describe('OutputStore', () => {
  const texts = (store: OutputStore) => store.lines.map(line => `${line.task} ${line.text}`);

  it('overwrites a line that ends with a carriage return, per task', () => {
    const store = new OutputStore();
    store.append([logged('a', ['1/3\r']), logged('b', ['other']), logged('a', ['2/3\r'])]);
    store.append([logged('a', ['3/3', 'end'])]);
    expect(texts(store)).toEqual(['b other', 'a 3/3', 'a end']);
  });

  it('keeps a limited number of lines and counts the dropped ones', () => {
    const store = new OutputStore();
    store.append([
      logged(
        'a',
        Array.from({ length: MAX_LINES + 5 }, (_, i) => String(i))
      )
    ]);
    expect(store.lines).toHaveLength(MAX_LINES);
    expect(store.dropped).toBe(5);
    expect(store.lines[0]!.text).toBe('5');
  });

  it('keeps a limited amount of text, and limits the length of lines', () => {
    const store = new OutputStore();
    store.append([
      logged(
        'a',
        Array.from({ length: 1000 }, () => 'x'.repeat(100_000))
      )
    ]);
    const kept = store.lines.reduce((sum, line) => sum + line.text.length, 0);
    expect(kept).toBeLessThanOrEqual(MAX_CHARACTERS);
    expect(store.lines[0]!.text.length).toBeLessThan(MAX_LINE + 10);
    expect(store.lines.length + store.dropped).toBe(1000);
  });

  it('marks where lines are missing', () => {
    const store = new OutputStore();
    store.append([logged('a', ['0', '1']), { ...logged('a', ['7']), first: 7 }, logged('b', ['other'])]);
    expect(store.lines.map(line => line.missing ?? line.text)).toEqual(['0', '1', 5, '7', 'other']);
    expect(store.dropped).toBe(5);
  });
});

/** The output files of a run, with one line per block. Block `n` is from time `n`, by the tasks a and b in turn. */
class Files {
  constructor(
    public count: number,
    private readonly _page = 1000
  ) {}

  readonly fetch = (page: { before?: number; after?: number; task: string }): Promise<OutputPage> => {
    this.asked.push(page);
    const events = Array.from({ length: this.count }, (_, n) => this.event(n)).filter(
      event => page.task === '' || event.task === page.task
    );
    if (page.after !== undefined) {
      const later = events.filter(event => event.time > page.after!);
      return this._answer(later.slice(0, this._page), true, later.length > this._page);
    }
    const earlier = events.filter(event => event.time < page.before!);
    return this._answer(earlier.slice(-this._page), earlier.length > this._page, true);
  };

  event(n: number): Logged {
    return { ...logged(n % 2 ? 'b' : 'a', [String(n)]), time: n, first: Math.floor(n / 2) };
  }

  readonly asked: { before?: number; after?: number; task: string }[] = [];

  private _answer(events: Logged[], earlier: boolean, later: boolean): Promise<OutputPage> {
    return Promise.resolve({
      run: 'r',
      events: events as unknown as Record<string, unknown>[],
      earlier,
      later,
      total: 0
    });
  }
}

describe('OutputReading', () => {
  const numbers = (reading: OutputReading) => reading.lines.map(line => Number(line.text));
  const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index);

  it('shows new lines as they arrive, and requests nothing while no lines are missing', async () => {
    const [store, files] = [new OutputStore(), new Files(4)];
    const reading = new OutputReading(store, files.fetch);
    store.append(range(0, 4).map(n => files.event(n)));
    await reading.earlier();
    await reading.later();
    expect([numbers(reading), reading.isLive, files.asked.length]).toEqual([range(0, 4), true, 0]);
  });

  it('goes back to the beginning page by page, with every line once and with stable keys', async () => {
    const [store, files] = [new OutputStore(), new Files(3000)];
    const reading = new OutputReading(store, files.fetch);
    store.append(range(2500, 3000).map(n => files.event(n)));
    const key = reading.lines.find(line => line.text === '2999')!.number;
    let pages = 0;
    while (reading.hasEarlier) {
      await reading.earlier();
      pages += 1;
    }
    expect(pages).toBe(3);
    expect(numbers(reading)).toEqual(range(0, 3000));
    expect(reading.lines.find(line => line.text === '2999')!.number).toBe(key);
    expect(new Set(reading.lines.map(line => line.number)).size).toBe(3000);
    store.append([{ ...files.event(3000) }]); // arrives while earlier lines are read
    expect(reading.lines).toHaveLength(3000);
    await reading.later();
    expect([reading.isLive, numbers(reading).pop()]).toEqual([true, 3000]);
  });

  it('fetches lines that were printed too fast to be sent', async () => {
    const [store, files] = [new OutputStore(), new Files(100)];
    const reading = new OutputReading(store, files.fetch);
    store.append([...range(0, 10), ...range(90, 100)].map(n => files.event(n)));
    expect(store.lines.filter(line => line.missing)).toHaveLength(2);
    await reading.earlier();
    expect(numbers(reading)).toEqual(range(0, 100));
  });

  it('keeps a limited window of lines that follows the reader', async () => {
    const files = new Files(MAX_LINES + 3000);
    const store = new OutputStore();
    const reading = new OutputReading(store, files.fetch);
    store.append(range(files.count - 10, files.count).map(n => files.event(n)));
    while (reading.hasEarlier) {
      await reading.earlier();
      expect(reading.lines.length).toBeLessThanOrEqual(MAX_LINES);
    }
    expect(numbers(reading)).toEqual(range(0, MAX_LINES));
    while (!reading.isLive) {
      await reading.later();
      expect(reading.lines.length).toBeLessThanOrEqual(MAX_LINES);
      if (!reading.isLive) {
        const shown = numbers(reading);
        expect(shown).toEqual(range(shown[0]!, shown[0]! + shown.length));
      }
    }
  });

  it('reads the output of one task, and reports why a page could not be fetched', async () => {
    const [store, files] = [new OutputStore(), new Files(100)];
    let works = true;
    const reading = new OutputReading(store, page => (works ? files.fetch(page) : Promise.reject(new Error('gone'))));
    store.append(range(90, 100).map(n => files.event(n)));
    reading.follow('b');
    works = false;
    await reading.earlier();
    expect([reading.problem, reading.isLive]).toEqual(['gone', true]);
    works = true;
    await reading.earlier();
    expect(numbers(reading)).toEqual(range(0, 50).map(n => 2 * n + 1));
    expect(reading.problem).toBe('');
    reading.follow();
    expect(reading.isLive).toBe(true);
  });
});
