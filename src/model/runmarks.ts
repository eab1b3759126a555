import type { AnyEvent, CheckpointSaved, Note, Progressed, TaskChanged } from '../api/schema';
import { formatBytes, formatDuration } from './format';

/**
 * A point in time to be marked on the plots: a task failed or restarted or, on the plots of one metric, its values
 * became non-finite.
 */
export interface Mark {
  /** Empty if it concerns the whole run. */
  task: string;
  time: number;
  label: string;
  /** The only metric that it concerns, and the step. */
  metric?: string;
  step?: number;
  /** Further details, one line each. */
  details?: string[];
}

/** The text of a mark. */
export function markText(mark: Mark): string {
  return mark.metric === undefined && mark.task !== '' ? `${mark.task} ${mark.label}` : mark.label;
}

/** A checkpoint, marked at the axis. */
export interface CheckpointMark {
  step: number;
  time: number;
  label: string;
}

/** Steps that were executed twice, and the time in which they were repeated. */
export interface DoneAgain {
  first: number;
  last: number;
  begun: number;
  ended: number;
}

/** The marks on the plots of a run, derived from its events. */
export class MarkStore {
  readonly marks: Mark[] = [];
  readonly doneAgain: DoneAgain[] = [];

  /** The checkpoints, at most one for each step, sorted by step. */
  get checkpoints(): CheckpointMark[] {
    return [...this._checkpoints.values()].sort((a, b) => a.step - b.step);
  }

  /** When the first task started. */
  get began(): number | null {
    return this._began;
  }

  add(event: AnyEvent): void {
    if (event.type === 'note') {
      this._addNote(event);
    } else if (event.type === 'task') {
      this._addTask(event);
    } else if (event.type === 'progress') {
      this._addProgress(event);
    } else if (event.type === 'checkpoint') {
      this._addCheckpoint(event);
    }
  }

  private _addNote({ task, time, metric, step, title, text, mark }: Note): void {
    if (metric && step !== null) {
      const known = this.marks.findIndex(other => other.metric === metric);
      // The report of the task that was affected first may arrive later: it replaces the mark.
      this.marks.splice(known < 0 ? this.marks.length : known, 1, { task, time, label: title, metric, step });
    } else if (mark) {
      this.marks.push({ task, time, label: mark, details: [title, text].filter(line => line !== '') });
    }
  }

  private _addTask(event: TaskChanged): void {
    const { task, time, attempt, state, host, message, signal } = event;
    if (state === 'starting' || state === 'running') {
      this._began ??= time;
    }
    if (state === 'failed') {
      const where = `in attempt ${attempt + 1}${host === '' ? '' : `, on ${host}`}`;
      const lost: Mark = {
        task,
        time,
        label: signal || 'failed',
        details: [message, where].filter(line => line !== '')
      };
      this.marks.push(lost);
      this._lost ??= lost;
    } else if (state === 'running' && attempt > this._attempt) {
      this._attempt = attempt; // the first running task of this attempt
      this._again = { task: '', time, label: `attempt ${attempt + 1}`, details: [] };
      if (this._lost) {
        this._again.details!.push(
          `started ${formatDuration(time - this._lost.time)} after ${this._lost.task} was lost`
        );
      }
      this.marks.push(this._again);
    }
  }

  private _addProgress({ time, attempt, progress: { done, unit } }: Progressed): void {
    if (unit !== 'step' || attempt < this._counting) {
      return;
    }
    const last = this.doneAgain[this.doneAgain.length - 1];
    if (attempt > this._counting) {
      this._counting = attempt;
      this._from = done;
      if (done < this._done) {
        this.doneAgain.push({ first: done, last: this._done, begun: time, ended: time });
      }
    } else if (last && this._done < last.last) {
      last.ended = time;
    }
    if (this._from !== null && done > this._from) {
      this._tellCost(this._from, time);
      this._from = null;
    }
    this._done = done;
  }

  /** Add the cost of a loss to its marks, once the first step of a later attempt has ended. */
  private _tellCost(from: number, time: number): void {
    const again = this.doneAgain[this.doneAgain.length - 1];
    for (const mark of [this._lost, this._again]) {
      if (again && again.first === from) {
        mark?.details?.push(`about ${again.last - again.first} steps are repeated, from step ${from}`);
      }
      if (this._lost) {
        mark?.details?.push(`the first step ended ${formatDuration(time - this._lost.time)} after the loss`);
      }
    }
    this._lost = null;
  }

  private _addCheckpoint({ time, checkpoint: { step, bytes } }: CheckpointSaved): void {
    this._checkpoints.set(step, { step, time, label: `checkpoint of step ${step}, ${formatBytes(bytes)}` });
  }

  private readonly _checkpoints = new Map<number, CheckpointMark>();
  private _attempt = 0;
  private _began: number | null = null;
  private _lost: Mark | null = null;
  private _again: Mark | null = null;
  private _counting = 0;
  private _done = 0;
  private _from: number | null = null;
}
