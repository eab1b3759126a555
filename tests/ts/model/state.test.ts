import { describe, expect, it } from 'vitest';

import { exitText, fractionDone, objective, reason, secondsLeft, secondsTaken } from '../../../src/model/state';
import { runInfo, taskInfo } from '../fixtures';

const progress = (done: number, total: number) => ({ done, total, unit: 'step', epoch: 0, epochs: 0 });

describe('state', () => {
  it('knows how far a run is, where that can be known', () => {
    expect(fractionDone(runInfo('r'))).toBe(0.58);
    expect(fractionDone(runInfo('r', { progress: progress(5, 0) }))).toBeNull();
    expect(fractionDone(runInfo('r', { progress: progress(5, 0), state: 'succeeded' }))).toBe(1);
  });

  it('expects the rest at the pace so far', () => {
    const run = runInfo('r', { progress: progress(25, 100), started: 1000 });
    expect(secondsLeft(run, 1010)).toBeCloseTo(30);
    expect(secondsLeft({ ...run, state: 'failed' }, 1010)).toBeNull();
    expect(secondsLeft({ ...run, progress: progress(0, 100) }, 1010)).toBeNull();
    expect(secondsTaken({ ...run, ended: 1004 }, 1010)).toBe(4);
  });

  it('says why a run failed', () => {
    expect(reason(runInfo('r', { message: 'worker:1 died (SIGKILL)' }))).toBe('worker:1 died (SIGKILL)');
    expect(reason(runInfo('r', { tasks: [taskInfo('ps:0', { state: 'failed', signal: 'SIGSEGV' })] }))).toBe(
      'ps:0: SIGSEGV'
    );
    expect(exitText({ signal: '', exit_code: 3 })).toBe('exit status 3');
    expect(exitText({ signal: '', exit_code: 0 })).toBe('');
  });

  it('stands for a run with its loss, or else its first metric', () => {
    expect(objective(runInfo('r', { latest: { accuracy: 1, loss: 2 } }))).toEqual(['loss', 2]);
    expect(objective(runInfo('r', { latest: { reward: 7 } }))).toEqual(['reward', 7]);
    expect(objective(runInfo('r', { latest: {} }))).toBeNull();
  });
});
