import { describe, expect, it } from 'vitest';

import { repeatsOf } from '../../../src/model/repeatedsequences';

describe('repeatsOf', () => {
  it('finds sequences that occur three or more times in a row, with the shortest period', () => {
    expect(repeatsOf([...'xaaaay'])).toEqual([{ start: 1, period: 1, count: 4 }]);
    expect(repeatsOf([...'xabcabcabcab'])).toEqual([{ start: 1, period: 3, count: 3 }]);
    expect(repeatsOf([...'abababab'])).toEqual([{ start: 0, period: 2, count: 4 }]);
    expect(repeatsOf([...'aabb'])).toEqual([]);
    expect(repeatsOf([])).toEqual([]);
  });

  it('chooses the longest repetition at each position, from left to right', () => {
    expect(repeatsOf([...'aaabaaabaaabccc'])).toEqual([
      { start: 0, period: 4, count: 3 },
      { start: 12, period: 1, count: 3 }
    ]);
  });
});
