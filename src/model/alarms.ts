/** Which alarms of runs a person has not been told of yet. Pure but for what it remembers. */

import type { Alarm, RunInfo } from '../api/schema';

/** What is known when the page is loaded is of the past: only what comes after the first look is new. */
export class AlarmWatch {
  /** The alarms that are new since the last look, each with its run. */
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
  // The newest run of the last look: one that is older and comes later was had back, and tells nothing new.
  private _since = 0;
  private readonly _newest = new Map<string, number>();
}
