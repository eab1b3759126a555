import type { AnyEvent } from '../api/schema';

/**
 * Maps wall times to steps. Events carry a time but no step; progress and epoch ends carry both, and steps in between
 * are interpolated linearly.
 */
export class StepClock {
  add(event: AnyEvent): void {
    if (event.type === 'epoch') {
      this._push(event.time, event.step);
    } else if (event.type === 'progress' && event.progress.unit === 'step') {
      this._push(event.time, event.progress.done);
    }
  }

  /** The step at `time` (seconds since the epoch); null until anything is known. */
  stepAt(time: number): number | null {
    const count = this._times.length;
    if (count === 0) {
      return null;
    }
    const after = this._times.findIndex(other => other >= time);
    if (after === 0) {
      return this._steps[0] ?? null;
    }
    if (after < 0) {
      return this._steps[count - 1] ?? null;
    }
    const [t0, t1] = [this._times[after - 1]!, this._times[after]!];
    const [s0, s1] = [this._steps[after - 1]!, this._steps[after]!];
    return t1 > t0 ? s0 + ((s1 - s0) * (time - t0)) / (t1 - t0) : s1;
  }

  private _push(time: number, step: number): void {
    const last = this._times.length - 1;
    if (last >= 0 && time < this._times[last]!) {
      return;
    }
    if (last >= 0 && step < this._steps[last]!) {
      // Tasks were restarted and repeat steps: up to this time the step stays constant, instead of being interpolated
      // backwards.
      this._times.push(time);
      this._steps.push(this._steps[last]!);
    }
    this._times.push(time);
    this._steps.push(step);
  }

  private readonly _times: number[] = [];
  private readonly _steps: number[] = [];
}
