import { ISignal, Signal } from '@lumino/signaling';

import { ApiError, RestApi } from '../api/rest';
import type { OutputPage, RunInfo, RunPatch, SearchRequest, ServerMessage, TraceData } from '../api/schema';
import type { EventSocket } from '../api/socket';
import { formatClock } from './format';
import { RunModel } from './run';

/** All runs known to the server, active and past, newest first. */
export class RunsModel {
  constructor(
    private readonly _api: RestApi,
    private readonly _socket: EventSocket
  ) {
    _socket.message.connect((_, message) => this._apply(message));
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted when a run appears that did not exist when the page was loaded. */
  get started(): ISignal<this, RunInfo> {
    return this._started;
  }

  /** Whether the list has been received at least once. */
  get isReady(): boolean {
    return this._ready;
  }

  get runs(): readonly RunInfo[] {
    return this._sorted;
  }

  /** The runs that are not archived. */
  get current(): readonly RunInfo[] {
    return this._current;
  }

  get(id: string): RunInfo | undefined {
    return this._runs.get(id);
  }

  /** A run's name, with its time if another run has the same name. */
  title(id: string): string {
    const info = this._runs.get(id);
    if (!info) {
      return id;
    }
    const others = this._sorted.some(other => other.id !== id && other.name === info.name);
    return others ? `${info.name} · ${formatClock(info.created)}` : info.name;
  }

  /** The model of one run, shared by all its views; undefined if there is no such run. */
  model(id: string): RunModel | undefined {
    let model = this._models.get(id);
    const info = this._runs.get(id);
    if (!model && info) {
      model = new RunModel(info, this._socket, part => this._api.seriesPart(id, part));
      this._models.set(id, model);
    }
    return model;
  }

  stop(id: string): Promise<void> {
    return this._api.stopRun(id);
  }

  askSearch(id: string, request: SearchRequest): Promise<void> {
    return this._api.askSearch(id, request);
  }

  pause(id: string): Promise<void> {
    return this._api.pauseRun(id);
  }

  continue(id: string): Promise<void> {
    return this._api.continueRun(id);
  }

  /** Trace the next steps of an active run. */
  profile(id: string, steps: number): Promise<void> {
    return this._api.profileRun(id, { steps });
  }

  /** Resume a run on a cluster as a new run, which is added to the list immediately. */
  async resume(id: string, cluster: string): Promise<RunInfo> {
    const info = await this._api.resumeRun(id, { cluster });
    if (!this._runs.has(info.id)) {
      this._applyRuns([info], false, []);
    }
    return info;
  }

  /** Name, tag or annotate a run; archive, delete or restore it. All pages are notified. */
  async patch(id: string, patch: RunPatch): Promise<void> {
    const info = await this._api.patchRun(id, patch);
    const known = this._runs.get(id);
    if (info.marks.deleted !== null) {
      this._applyRuns([], false, [id]);
    } else if (known) {
      this._applyRuns([known.next_seq < info.next_seq ? info : withMarks(known, info, patch)], false, []);
    } else if (patch.deleted === false) {
      this._applyRuns([info], false, [], true);
    }
  }

  forget(id: string): Promise<void> {
    return this._api.forgetRun(id);
  }

  /** A page of the output of the run's tasks. */
  output(id: string, page: { before?: number; after?: number; task: string }): Promise<OutputPage> {
    return this._api.output(id, page);
  }

  /** The operations and transfers in the run's traced steps; null if no steps were traced. */
  async trace(id: string): Promise<TraceData | null> {
    try {
      return await this._api.trace(id);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) {
        return null;
      }
      throw error;
    }
  }

  /** The download URL of a run's trace. */
  traceUrl(id: string): string {
    return this._api.chromeTraceUrl(id);
  }

  private _apply(message: ServerMessage): void {
    switch (message.type) {
      case 'runs':
        this._applyRuns(message.runs, message.all, message.removed);
        break;
      case 'events':
        this._models.get(message.run)?.applyEvents(message);
        break;
      case 'series':
        this._models.get(message.run)?.applySeries(message);
        break;
      case 'error':
        console.warn(`jupyter_dtf: ${message.message}`);
        break;
      case 'hello':
      case 'clusters':
        break;
    }
  }

  /** `known`: whether runs that are not in the list yet were restored rather than just started. */
  private _applyRuns(runs: RunInfo[], all: boolean, removed: string[], known = false): void {
    const fresh = this._ready && !known ? runs.filter(info => !this._runs.has(info.id)) : [];
    if (all) {
      this._runs.clear();
    }
    removed.forEach(id => {
      this._runs.delete(id);
      this._models.delete(id);
    });
    for (const info of runs) {
      this._runs.set(info.id, info);
      this._models.get(info.id)?.setInfo(info);
    }
    this._sorted = [...this._runs.values()].sort((a, b) => b.created - a.created);
    this._current = this._sorted.filter(run => !run.marks.archived);
    this._ready = this._ready || all;
    this._changed.emit();
    fresh.forEach(info => this._started.emit(info));
  }

  private _ready = false;
  private _sorted: readonly RunInfo[] = [];
  private _current: readonly RunInfo[] = [];
  private readonly _runs = new Map<string, RunInfo>();
  private readonly _models = new Map<string, RunModel>();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _started = new Signal<this, RunInfo>(this);
}

/**
 * A run with the marks that a patch has set, taken from the reply to it. All else stays: the reply may be older than what
 * the socket has sent since, such as the end of the run.
 */
function withMarks(run: RunInfo, reply: RunInfo, patch: RunPatch): RunInfo {
  const isSet = (name: string) => (patch[name as keyof RunPatch] ?? null) !== null;
  const marks = Object.fromEntries(Object.entries(reply.marks).filter(([name]) => isSet(name)));
  return { ...run, name: isSet('name') ? reply.name : run.name, marks: { ...run.marks, ...marks } };
}
