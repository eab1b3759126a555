/** Compares two texts line by line. Pure. */

/** A line of a string with its number, from 1. */
export interface NumberedLine {
  number: number;
  text: string;
}

/** Two lines side by side. Null: the other text has no corresponding line. */
export interface DiffRow {
  left: NumberedLine | null;
  right: NumberedLine | null;
  differs: boolean;
}

/** Unchanged rows that are collapsed until they are requested. */
export interface SameRows {
  same: readonly DiffRow[];
}

/** With more edits than this, two texts are treated as having nothing in common. */
const MOST_EDITS = 1500;
/** Number of context lines around each difference. */
const AROUND = 3;

/** Align two texts. Replaced lines are next to their replacements. */
export function sideBySide(left: string, right: string): DiffRow[] {
  const [a, b] = [linesOf(left), linesOf(right)];
  const rows: DiffRow[] = [];
  let [i, j] = [0, 0];
  const replaced = (toI: number, toJ: number) => {
    while (i < toI || j < toJ) {
      rows.push({ left: i < toI ? lineOf(a, i++) : null, right: j < toJ ? lineOf(b, j++) : null, differs: true });
    }
  };
  for (const [atI, atJ] of common(a, b)) {
    replaced(atI, atJ);
    rows.push({ left: lineOf(a, i++), right: lineOf(b, j++), differs: false });
  }
  replaced(a.length, b.length);
  return rows;
}

function lineOf(lines: readonly string[], index: number): NumberedLine {
  return { number: index + 1, text: lines[index]! };
}

function linesOf(text: string): string[] {
  const lines = text.split(/\r?\n/);
  if (lines[lines.length - 1] === '') {
    lines.pop();
  }
  return lines;
}

/** A longest common subsequence of the two texts' lines, as pairs of indices (Myers 1986). */
function common(a: readonly string[], b: readonly string[]): [number, number][] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) {
    start++;
  }
  let [endA, endB] = [a.length, b.length];
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) {
    endA--;
    endB--;
  }
  const before = Array.from({ length: start }, (_, index): [number, number] => [index, index]);
  const between = shortest(a.slice(start, endA), b.slice(start, endB));
  const behind = Array.from({ length: a.length - endA }, (_, index): [number, number] => [endA + index, endB + index]);
  return [...before, ...between.map(([i, j]): [number, number] => [i + start, j + start]), ...behind];
}

function shortest(a: readonly string[], b: readonly string[]): [number, number][] {
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const trail: Int32Array[] = [];
  // The furthest position reached in `a` with this many edits on each diagonal: index `k + most + 1`.
  const reached = new Int32Array(2 * most + 3);
  for (let edits = 0; edits <= most; edits++) {
    trail.push(reached.slice(most + 1 - edits, most + 2 + edits));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && reached[k + most]! < reached[k + most + 2]!);
      let i = down ? reached[k + most + 2]! : reached[k + most]! + 1;
      while (i < a.length && i - k < b.length && a[i] === b[i - k]) {
        i++;
      }
      reached[k + most + 1] = i;
      if (i >= a.length && i - k >= b.length) {
        return back(a, b, trail);
      }
    }
  }
  return [];
}

/** Trace the shortest path back from its end, and return the pairs of lines that it passes without an edit. */
function back(a: readonly string[], b: readonly string[], trail: readonly Int32Array[]): [number, number][] {
  const found: [number, number][] = [];
  let [i, j] = [a.length, b.length];
  for (let edits = trail.length - 1; edits > 0; edits--) {
    const before = trail[edits]!;
    const at = (k: number) => before[k + edits] ?? -1;
    const k = i - j;
    const down = k === -edits || (k !== edits && at(k - 1) < at(k + 1));
    const from = down ? k + 1 : k - 1;
    const [fromI, fromJ] = [at(from), at(from) - from];
    const [toI, toJ] = down ? [fromI, fromJ + 1] : [fromI + 1, fromJ];
    while (i > toI && j > toJ) {
      found.push([--i, --j]);
    }
    [i, j] = [fromI, fromJ];
  }
  while (i > 0 && j > 0) {
    found.push([--i, --j]);
  }
  return found.reverse();
}

/** The rows with unchanged ones collapsed, except for some context lines around each difference. */
export function withSameLeftOut(rows: readonly DiffRow[], around = AROUND): (DiffRow | SameRows)[] {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, index) => row.differs && near.fill(1, Math.max(0, index - around), index + around + 1));
  const found: (DiffRow | SameRows)[] = [];
  for (let start = 0; start < rows.length;) {
    let end = start;
    while (end < rows.length && !near[end]) {
      end++;
    }
    if (end - start > 1) {
      found.push({ same: rows.slice(start, end) });
      start = end;
    } else {
      found.push(rows[start]!);
      start++;
    }
  }
  return found;
}

/** The changed part of a replaced line: where it begins to differ, and the length of the common suffix. */
export function changedPart(text: string, other: string): [start: number, end: number] {
  const most = Math.min(text.length, other.length);
  let start = 0;
  while (start < most && text[start] === other[start]) {
    start++;
  }
  let behind = 0;
  while (behind < most - start && text[text.length - 1 - behind] === other[other.length - 1 - behind]) {
    behind++;
  }
  return [start, text.length - behind];
}
