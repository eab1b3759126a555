/** Which runs have ended since the last look. Pure except for what it remembers. */

import type { RunInfo } from '../api/schema';
import type { PreferenceValues } from './preferences';
import { isFinal, secondsTaken } from './runstate';

/** Runs that had ended before the page was loaded are old news, and so are restored ones. */
export class EndWatch {
  /** The runs that have ended since the last look. */
  look(runs: readonly RunInfo[]): RunInfo[] {
    const ended = runs.filter(
      run => isFinal(run.state) && (this._active.has(run.id) || (run.created > this._since && !this._ended.has(run.id)))
    );
    for (const run of runs) {
      if (isFinal(run.state)) {
        this._active.delete(run.id);
        this._ended.add(run.id);
      } else {
        this._active.add(run.id);
      }
    }
    const newest = runs.reduce((latest, run) => Math.max(latest, run.created), 0);
    this._since = this._since === Infinity ? newest : Math.max(this._since, newest);
    return ended;
  }

  private _since = Infinity;
  private readonly _active = new Set<string>();
  private readonly _ended = new Set<string>();
}

/**
 * Whether to notify the user of a run's end: if it ran long and was not stopped by anyone. Runs with an alarm of their
 * own (`notify=`) are announced by that, and the trials of a search by its view.
 */
export function isToldOfEnd(run: RunInfo, preferences: Pick<PreferenceValues, 'tellOfEnds' | 'longRun'>): boolean {
  const { tellOfEnds, longRun } = preferences;
  return (
    tellOfEnds !== 'none' &&
    (run.state === 'succeeded' ? tellOfEnds === 'all' : run.state === 'failed' || run.state === 'lost') &&
    secondsTaken(run, 0) >= longRun &&
    run.trial === null &&
    !run.alarms.some(alarm => alarm.about === 'end')
  );
}
