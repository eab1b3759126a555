import { describe, expect, it } from 'vitest';

import { MAX_LINES, OutputStore, terminalText } from '../../../src/model/output';

const logged = (task: string, lines: string[]) => ({
  type: 'log' as const,
  time: 1,
  task,
  stream: 'stdout',
  first: 0,
  lines
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
  ])('%j shows as %j', (raw, shown) => expect(terminalText(raw)).toBe(shown));
});

describe('OutputStore', () => {
  const texts = (store: OutputStore) => store.lines.map(line => `${line.task} ${line.text}`);

  it('writes over a line that ended in a carriage return, per task', () => {
    const store = new OutputStore();
    store.append([logged('a', ['1/3\r']), logged('b', ['other']), logged('a', ['2/3\r'])]);
    store.append([logged('a', ['3/3', 'end'])]);
    expect(texts(store)).toEqual(['b other', 'a 3/3', 'a end']);
  });

  it('keeps a limited number of lines and says how many it dropped', () => {
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
});
