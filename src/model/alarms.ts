/** Tracks which alarms of runs the user has not been notified of yet. Pure except for its own state. */

import type { Alarm, RunInfo } from '../api/schema';

/** Finds new alarms: those that arrive after the first check. Alarms that are known when the page loads are old. */
export class AlarmWatch {
  /** The alarms that are new since the last check, each with its run. */
  look(runs: readonly RunInfo[]): [RunInfo, Alarm][] {
    const fresh: [RunInfo, Alarm][] = [];
    for (const run of runs) {
      const newest = this._newest.get(run.id);
      const alarms = run.alarms.filter(alarm => newest === undefined || alarm.time > newest);
      if (this._began && (newest !== undefined || run.created >= this._since)) {
        fresh.push(...alarms.map((alarm): [RunInfo, Alarm] => [run, alarm]));
      }
      this._newest.set(run.id, Math.max(newest ?? 0, ...run.alarms.map(alarm => alarm.time)));
      this._since = Math.max(this._since, run.created);
    }
    this._began = true;
    return fresh;
  }

  private _began = false;
  // The newest run at the last check: an older one that appears later was restored, and its alarms are not new.
  private _since = 0;
  private readonly _newest = new Map<string, number>();
}
