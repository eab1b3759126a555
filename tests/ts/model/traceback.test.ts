import { describe, expect, it } from 'vitest';

import { ownLine, tracebackOf } from '../../../src/model/traceback';
import { runInfo, taskInfo } from '../fixtures';

const TRACEBACK = `Traceback (most recent call last):
  File "/home/ada/train.py", line 12, in <module>
    model.fit(x, y)
  File "/env/lib/python3.12/site-packages/keras/src/models.py", line 7, in fit
    raise ValueError("no")
ValueError: no`;

describe('ownLine', () => {
  it('is the innermost line outside of installed packages', () => {
    expect(ownLine(TRACEBACK)).toEqual({ file: 'train.py', line: 12, code: 'model.fit(x, y)' });
  });

  it('has no file name if it is in a notebook cell', () => {
    const cell = 'File "/tmp/ipykernel_31/2041.py", line 3, in step\n    return 1 / 0\n';
    expect(ownLine(`  ${cell}`)).toEqual({ file: '', line: 3, code: 'return 1 / 0' });
  });

  it('is null if all lines are in installed packages, or there is no traceback', () => {
    expect(ownLine('  File "/usr/lib/python3.12/json/decoder.py", line 3, in decode\n    x\n')).toBeNull();
    expect(ownLine('')).toBeNull();
  });
});

describe('tracebackOf', () => {
  it('is the traceback of the failed task, without colors', () => {
    const failed = taskInfo('worker:1', { state: 'failed', traceback: '\u001b[31mValueError\u001b[0m: no\n' });
    expect(tracebackOf(runInfo('a', { tasks: [taskInfo('worker:0'), failed] }))).toBe('ValueError: no');
    expect(tracebackOf(runInfo('a'))).toBe('');
  });
});
