import { ISignal, Signal } from '@lumino/signaling';

import type { EventsMessage, Logged, Note, RunChanged, RunInfo, SeriesMessage, TaskChanged } from '../api/schema';
import type { EventSocket } from '../api/socket';
import { OutputStore } from './output';
import { Line, SeriesStore } from './series';
import { Timeline } from './timeline';

export type XAxis = 'step' | 'time';

/** An event that a person reads: notes and changes of state. */
export type StoryEvent = (RunChanged | TaskChanged | Note) & { seq: number };

/** A moment to mark on the plots: a task failed, or started again. */
export interface Mark {
  task: string;
  time: number;
  label: string;
}

const WIDTH_STEP = 200;
const DEFAULT_WIDTH = 600;

/**
 * All that the browser knows of one run. Events and series come only while somebody looks (`acquire`, `release`); what
 * has come is kept, and coming back resumes after it.
 */
export class RunModel {
  constructor(
    private _info: RunInfo,
    private readonly _socket: EventSocket
  ) {}

  get info(): RunInfo {
    return this._info;
  }

  get id(): string {
    return this._info.id;
  }

  /** The description changed. */
  get infoChanged(): ISignal<this, void> {
    return this._infoChanged;
  }

  /** Notes, states or marks were added. */
  get storyChanged(): ISignal<this, void> {
    return this._storyChanged;
  }

  get outputChanged(): ISignal<this, void> {
    return this._outputChanged;
  }

  get seriesChanged(): ISignal<this, void> {
    return this._seriesChanged;
  }

  get story(): readonly StoryEvent[] {
    return this._story;
  }

  get output(): OutputStore {
    return this._output;
  }

  /** What the x of the series is. The same for all who look at this run. */
  get x(): XAxis {
    return this._x;
  }

  setX(x: XAxis): void {
    if (x !== this._x) {
      this._x = x;
      this._series.clear();
      this._subscribe();
      this._seriesChanged.emit();
    }
  }

  lines(): Line[] {
    return this._series.lines();
  }

  /** Where time zero is on a time axis, in seconds since the epoch. */
  get origin(): number {
    return this._info.started ?? this._info.created;
  }

  /** Failures and restarts of tasks. */
  get marks(): readonly Mark[] {
    return this._marks;
  }

  /** A mark's place on the present x axis; null while it is not known. */
  markX(mark: Mark): number | null {
    return this._x === 'time' ? mark.time - this.origin : this._timeline.stepAt(mark.time);
  }

  /** Whether anybody looks. */
  get isWatched(): boolean {
    return this._viewers > 0;
  }

  /** Somebody begins to look. */
  acquire(): void {
    this._viewers += 1;
    if (this._viewers === 1) {
      this._subscribe();
    }
  }

  /** Somebody who had acquired it stops looking. */
  release(): void {
    this._viewers -= 1;
    if (this._viewers === 0) {
      this._socket.unsubscribe(this.id);
    }
  }

  /** A plot is this many pixels wide; the widest decides what is asked for. Whole steps, so that dragging asks rarely. */
  needWidth(pixels: number): void {
    const width = Math.ceil(pixels / WIDTH_STEP) * WIDTH_STEP;
    if (width > this._width) {
      this._width = width;
      this._subscribe();
    }
  }

  setInfo(info: RunInfo): void {
    this._info = info;
    this._infoChanged.emit();
  }

  applyEvents(message: EventsMessage): void {
    const logged: Logged[] = [];
    let told = false;
    for (const event of message.events) {
      if (event.seq < this._next) {
        continue; // sent again after a reconnect
      }
      this._timeline.add(event);
      if (event.type === 'log') {
        logged.push(event);
      } else if (event.type === 'run' || event.type === 'task' || event.type === 'note') {
        this._tell(event);
        told = true;
      }
    }
    this._next = Math.max(this._next, message.next_seq);
    if (logged.length > 0) {
      this._output.append(logged);
      this._outputChanged.emit();
    }
    if (told) {
      this._storyChanged.emit();
    }
  }

  applySeries(message: SeriesMessage): void {
    for (const frame of message.frames) {
      if (!this._series.apply(frame)) {
        // A frame that does not follow: start over rather than draw a line with a hole in it.
        this._series.clear();
        this._subscribe();
        break;
      }
    }
    this._seriesChanged.emit();
  }

  private _tell(event: StoryEvent): void {
    this._story = [...this._story, event];
    if (event.type !== 'task') {
      return;
    }
    if (event.state === 'failed') {
      this._failed.add(event.task);
      this._marks.push({ task: event.task, time: event.time, label: event.signal || 'failed' });
    } else if (event.state === 'running' && this._failed.delete(event.task)) {
      this._marks.push({ task: event.task, time: event.time, label: 'restarted' });
    }
  }

  private _subscribe(): void {
    if (this._viewers > 0) {
      this._socket.subscribe(this.id, { next: this._next, width: this._width, x: this._x });
    }
  }

  private _x: XAxis = 'step';
  private _width = DEFAULT_WIDTH;
  private _viewers = 0;
  private _next = 0;
  private _story: readonly StoryEvent[] = [];
  private readonly _marks: Mark[] = [];
  private readonly _failed = new Set<string>();
  private readonly _output = new OutputStore();
  private readonly _series = new SeriesStore();
  private readonly _timeline = new Timeline();
  private readonly _infoChanged = new Signal<this, void>(this);
  private readonly _storyChanged = new Signal<this, void>(this);
  private readonly _outputChanged = new Signal<this, void>(this);
  private readonly _seriesChanged = new Signal<this, void>(this);
}
