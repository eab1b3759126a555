import { expect, it } from 'vitest';

import { changedPart, DiffRow, sideBySide, withSameLeftOut } from '../../../src/model/linediff';

/** Returns rows as text: `a a` for equal lines, `b|-` and `-|c` for removed and added ones, `b|c` for replaced ones. */
const shown = (rows: readonly DiffRow[]) =>
  rows.map(({ left, right, differs }) => `${left?.text ?? '-'}${differs ? '|' : ' '}${right?.text ?? '-'}`);
const text = (lines: string) => lines.split('').join('\n');

it('aligns equal lines, and lines that have replaced others', () => {
  expect(shown(sideBySide(text('abcd'), text('abcd')))).toEqual(['a a', 'b b', 'c c', 'd d']);
  expect(shown(sideBySide(text('axd'), text('abcd')))).toEqual(['a a', 'x|b', '-|c', 'd d']);
  expect(shown(sideBySide('', text('ab')))).toEqual(['-|a', '-|b']);
  expect(shown(sideBySide(text('ab'), ''))).toEqual(['a|-', 'b|-']);
  expect(shown(sideBySide('a\r\nb\n', 'a\nb'))).toEqual(['a a', 'b b']);
  const [row] = sideBySide(text('xab'), text('ab')).slice(1);
  expect(row).toEqual({ left: { number: 2, text: 'a' }, right: { number: 1, text: 'a' }, differs: false });
});

it('finds the maximum number of common lines, and keeps both texts complete', () => {
  let seed = 7;
  const next = (most: number) => (seed = (seed * 48271) % 2147483647) % most;
  for (let round = 0; round < 200; round++) {
    const [a, b] = [0, 1].map(() => Array.from({ length: next(12) }, () => 'abc'[next(3)]!));
    const rows = sideBySide(a!.join('\n'), b!.join('\n'));
    expect(rows.flatMap(({ left }) => left?.text ?? [])).toEqual(a);
    expect(rows.flatMap(({ right }) => right?.text ?? [])).toEqual(b);
    expect(rows.every(({ left, right, differs }) => differs || left!.text === right!.text)).toBe(true);
    expect(rows.filter(({ differs }) => !differs)).toHaveLength(longest(a!, b!));
  }
});

/** Returns the length of the longest common subsequence, computed from its definition. */
function longest(a: readonly string[], b: readonly string[]): number {
  const table = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  a.forEach((one, i) =>
    b.forEach((other, j) => {
      table[i + 1]![j + 1] = one === other ? table[i]![j]! + 1 : Math.max(table[i]![j + 1]!, table[i + 1]![j]!);
    })
  );
  return table[a.length]![b.length]!;
}

it('treats texts with little in common as replaced, in a short time', () => {
  const [a, b] = ['a', 'b'].map(name => Array.from({ length: 8000 }, (_, line) => `${name} ${line}`).join('\n'));
  const rows = sideBySide(`same\n${a}`, `same\n${b}`);
  expect(rows).toHaveLength(8001);
  expect(rows[0]!.differs).toBe(false);
  expect(rows[4000]!.left!.text).toBe('a 3999');
});

it('omits lines far from any difference', () => {
  const rows = sideBySide(text('abcdefghij'), text('abcdeXghij'));
  const parts = withSameLeftOut(rows, 2).map(part => ('same' in part ? part.same.length : shown([part])[0]));
  expect(parts).toEqual([3, 'd d', 'e e', 'f|X', 'g g', 'h h', 2]);
  expect(withSameLeftOut(sideBySide(text('abc'), text('abc')))).toHaveLength(1);
  // A single line takes no more room than the note that it is omitted.
  expect(withSameLeftOut(sideBySide(text('abc'), text('abX')), 1)).toHaveLength(3);
});

it('finds the part of a line that has changed', () => {
  expect(changedPart('rate = 0.10', 'rate = 0.25')).toEqual([9, 11]);
  expect(changedPart('aa', 'aaa')).toEqual([2, 2]);
  expect(changedPart('aaa', 'aa')).toEqual([2, 3]);
});
