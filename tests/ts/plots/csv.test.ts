import { expect, it } from 'vitest';

import { csvOf } from '../../../src/plots/csv';

it('quotes values with commas, and escapes formulas for spreadsheets', () => {
  const line = {
    key: '',
    name: '=A1, "x"',
    task: '',
    phase: 'training',
    validation: false,
    x: Float64Array.of(1, 2),
    y: Float64Array.of(0.5, NaN),
    version: 1
  } as const;
  expect(csvOf([line], 'step').split('\r\n')).toEqual([
    'line,task,step,value',
    '"\'=A1, ""x""",mean,1,0.5',
    '"\'=A1, ""x""",mean,2,',
    ''
  ]);
});
