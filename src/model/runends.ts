/** Tracks which runs have ended since the last check. Pure except for its own state. */

import type { RunInfo } from '../api/schema';
import type { PreferenceValues } from './preferences';
import { isFinal, secondsTaken } from './runstate';

/** Finds runs that have just ended, but not those that ended before the page was loaded, or restored ones. */
export class EndWatch {
  /** The runs that have ended since the last check. */
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
 * Whether to notify the user of a run's end: only if it ran long and was not stopped by a user. The end of a run with
 * an alarm of its own (`notify=`) is announced by that alarm, and the ends of a search's trials are shown in its view.
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
