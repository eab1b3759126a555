import { describe, expect, it } from 'vitest';

import {
  exitText,
  fractionDone,
  objective,
  objectiveText,
  reason,
  secondsLeft,
  secondsTaken,
  warningsOf
} from '../../../src/model/runstate';
import { runInfo, taskInfo } from '../fixtures';

const progress = (done: number, total: number) => ({ done, total, unit: 'step', epoch: 0, epochs: 0 });

describe('state', () => {
  it('returns the progress of a run, if it is known', () => {
    expect(fractionDone(runInfo('r'))).toBe(0.58);
    expect(fractionDone(runInfo('r', { progress: progress(5, 0) }))).toBeNull();
    expect(fractionDone(runInfo('r', { progress: progress(5, 0), state: 'succeeded' }))).toBe(1);
  });

  it('estimates the remaining time from the pace so far', () => {
    const run = runInfo('r', { progress: progress(25, 100), started: 1000 });
    expect(secondsLeft(run, 1010)).toBeCloseTo(30);
    expect(secondsLeft({ ...run, state: 'failed' }, 1010)).toBeNull();
    expect(secondsLeft({ ...run, progress: progress(0, 100) }, 1010)).toBeNull();
    expect(secondsTaken({ ...run, ended: 1004 }, 1010)).toBe(4);
  });

  it('returns why a run failed', () => {
    expect(reason(runInfo('r', { message: 'worker:1 died (SIGKILL)' }))).toBe('worker:1 died (SIGKILL)');
    expect(reason(runInfo('r', { tasks: [taskInfo('ps:0', { state: 'failed', signal: 'SIGSEGV' })] }))).toBe(
      'ps:0: SIGSEGV'
    );
    expect(exitText({ signal: '', exit_code: 3 })).toBe('exit status 3');
    expect(exitText({ signal: '', exit_code: 0 })).toBe('');
  });

  it('returns the first headline metric, and no metric of the machine', () => {
    expect(objective(runInfo('r', { headline: { loss: 2, accuracy: 1 } }))).toEqual(['loss', 2]);
    expect(objectiveText(runInfo('r', { headline: { step_seconds: 0.002 } }))).toEqual(['step time', '2 ms']);
    expect(objective(runInfo('r', { latest: { cpu: 0.97 }, headline: {} }))).toBeNull();
  });

  it('reports values that are not finite', () => {
    const nan = runInfo('r', { headline: { loss: null }, not_finite: { loss: 'loss became NaN at step 8' } });
    expect(objectiveText(nan)).toEqual(['loss', 'NaN']);
    expect(warningsOf(nan)).toEqual(['loss became NaN at step 8']);
    const infinite = runInfo('r', { headline: { loss: null }, not_finite: { loss: 'loss became infinite at step 8' } });
    expect(objectiveText(infinite)).toEqual(['loss', '∞']);
  });
});
