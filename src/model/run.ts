import { ISignal, Signal } from '@lumino/signaling';

import type {
  AnyEvent,
  EventsMessage,
  Logged,
  RunInfo,
  SeriesMessage,
  StoryEvent as Told,
  Submitted
} from '../api/schema';
import { STORY } from '../api/schema';
import type { EventSocket } from '../api/socket';
import { CheckpointMark, DoneAgain, Mark, MarkStore } from './runmarks';
import { OutputStore } from './output';
import { Line, ReplacedLine, SeriesStore } from './series';
import { axisBehind, Pace, paceOf, ShownAxis, XAxis } from './shownaxis';
import { StepClock } from './stepclock';
import type { FetchPart } from './zoom';

export type { ShownAxis, XAxis } from './shownaxis';

/** An event for the event list: a note or a change of state. */
export type StoryEvent = Told & { seq: number };

const isTold = (event: AnyEvent & { seq: number }): event is StoryEvent => STORY.includes(event.type);

const WIDTH_STEP = 200;
const DEFAULT_WIDTH = 600;
// The server's limit is 64 KiB.
const MESSAGE_ROOM = 60_000;

/**
 * Everything that the browser knows about one run. Events and series arrive only while the run is viewed (`acquire`,
 * `release`); received data is kept, and viewing the run again resumes from there.
 */
export class RunModel {
  constructor(
    private _info: RunInfo,
    private readonly _socket: EventSocket,
    /** Fetches parts of lines at a finer resolution than the socket's. */
    readonly fetchPart: FetchPart | null = null
  ) {}

  get info(): RunInfo {
    return this._info;
  }

  get id(): string {
    return this._info.id;
  }

  /** Emitted when the run's description has changed. */
  get infoChanged(): ISignal<this, void> {
    return this._infoChanged;
  }

  /** Emitted when notes, states or marks were added. */
  get storyChanged(): ISignal<this, void> {
    return this._storyChanged;
  }

  get outputChanged(): ISignal<this, void> {
    return this._outputChanged;
  }

  get seriesChanged(): ISignal<this, void> {
    return this._seriesChanged;
  }

  /** Emitted when any message has added metrics, or when the x axis has changed. */
  get metricsChanged(): ISignal<this, void> {
    return this._metricsChanged;
  }

  /** Emitted when the submitted program is known. */
  get submittedChanged(): ISignal<this, void> {
    return this._submittedChanged;
  }

  /**
   * The code and design that were submitted with the run; null if not stored, undefined until the run is first viewed.
   */
  get submitted(): Submitted | null | undefined {
    return this._submitted;
  }

  get story(): readonly StoryEvent[] {
    return this._story;
  }

  get output(): OutputStore {
    return this._output;
  }

  /** The x axis of the series, shared by all viewers of this run. */
  get x(): XAxis {
    return this._x;
  }

  /** The x axis shown to the user: the same, or epochs, examples or the time of day. */
  get shownX(): ShownAxis {
    return this._shownX;
  }

  /** The length of the run's epochs and steps. */
  get pace(): Pace {
    return paceOf(this._info.progress, this._epochEnded, this._info.parameters);
  }

  /** The width of the widest plot, in pixels. */
  get width(): number {
    return this._width;
  }

  /** Set the axis chosen by the user. */
  setX(x: ShownAxis): void {
    this._xChosen = true;
    this._changeX(x);
  }

  /** Set the default until the user chooses: preferences may be loaded after the run is shown. */
  preferX(x: XAxis): void {
    if (!this._xChosen) {
      this._changeX(x);
    }
  }

  private _changeX(shown: ShownAxis): void {
    if (shown === this._shownX) {
      return;
    }
    this._shownX = shown;
    const x = axisBehind(shown);
    if (x !== this._x) {
      this._x = x;
      this._series.clear();
      this._subscribe();
    }
    this._seriesChanged.emit();
    this._metricsChanged.emit();
  }

  /** The names of all metrics of the run, in the order in which they were first reported. */
  get metrics(): string[] {
    return [...new Set([...Object.keys(this._info.latest), ...this._series.metrics])];
  }

  /** The lines of a metric received so far; only requested metrics are sent. */
  lines(metric: string): Line[] {
    return this._series.lines(metric);
  }

  /** Lines of a metric that later attempts have replaced by repeating their steps. */
  replaced(metric: string): ReplacedLine[] {
    return this._series.replaced(metric);
  }

  /** The smallest and largest x of these metrics' lines; null until any have arrived. */
  xExtent(metrics: Iterable<string>): [number, number] | null {
    return this._series.xExtent(metrics);
  }

  /** Increases when a line is sent again from its start. */
  get revision(): number {
    return this._series.revision;
  }

  /** The newest x of each line of these metrics. */
  tips(metrics: Iterable<string>): number[] {
    return this._series.tips(metrics);
  }

  /** Declare that `viewer` shows exactly these metrics; the server sends the metrics that any viewer shows. */
  want(viewer: object, metrics: readonly string[]): void {
    const before = this._wanted();
    if (metrics.length > 0) {
      this._wants.set(viewer, metrics);
    } else {
      this._wants.delete(viewer);
    }
    const now = this._wanted();
    if (this._viewers > 0 && (now.length !== before.length || now.some((metric, index) => metric !== before[index]))) {
      this._socket.show(this.id, now);
    }
  }

  /** The origin of the time axis, in seconds since the epoch. */
  get origin(): number {
    return this._info.started ?? this._info.created;
  }

  /** Failures and restarts of tasks, tasks that delay the others, and points at which metrics became non-finite. */
  get marks(): readonly Mark[] {
    return this._marks.marks;
  }

  get checkpoints(): readonly CheckpointMark[] {
    return this._marks.checkpoints;
  }

  /** Steps that two attempts have executed. */
  get doneAgain(): readonly DoneAgain[] {
    return this._marks.doneAgain;
  }

  /** A mark's position on the current x axis; null while unknown. */
  markX(mark: Pick<Mark, 'time' | 'step'>): number | null {
    if (mark.step !== undefined && this._x === 'step') {
      return mark.step;
    }
    return this._x === 'time' ? mark.time - this.origin : this._timeline.stepAt(mark.time);
  }

  /** The tasks' running time at a wall time, in seconds: the x of machine metrics when the axis is the step. */
  lifeAt(time: number): number {
    return time - (this._x === 'time' ? this.origin : (this._marks.began ?? this.origin));
  }

  /** Whether anyone is viewing the run. */
  get isWatched(): boolean {
    return this._viewers > 0;
  }

  /** Call when starting to view the run. */
  acquire(): void {
    this._viewers += 1;
    if (this._viewers === 1) {
      this._subscribe();
    }
  }

  /** Call when no longer viewing the run, once for each `acquire`. */
  release(): void {
    this._viewers -= 1;
    if (this._viewers === 0) {
      this._socket.unsubscribe(this.id);
    }
  }

  /**
   * Report a plot's width in pixels; the widest determines the resolution. Rounded up in steps, so that resizing seldom
   * triggers a request.
   */
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
    const told: StoryEvent[] = [];
    for (const event of message.events) {
      if (event.seq < this._next) {
        continue; // sent again after a reconnect
      }
      this._timeline.add(event);
      this._marks.add(event);
      if (event.type === 'epoch') {
        this._epochEnded = event;
      }
      if (event.type === 'log') {
        logged.push(event);
      } else if (isTold(event)) {
        told.push(event);
      }
    }
    this._next = Math.max(this._next, message.next_seq);
    this._learnSubmitted(message.events);
    if (logged.length > 0) {
      this._output.append(logged);
      this._outputChanged.emit();
    }
    if (told.length > 0) {
      this._story = [...this._story, ...told];
      this._storyChanged.emit();
    }
  }

  private _learnSubmitted(events: readonly AnyEvent[]): void {
    const found = events.find(event => event.type === 'submitted');
    if (this._submitted === undefined || (this._submitted === null && found)) {
      this._submitted = found ?? null;
      this._submittedChanged.emit();
    }
  }

  applySeries(message: SeriesMessage): void {
    const known = this.metrics.length;
    for (const frame of message.frames) {
      if (!this._series.apply(frame)) {
        // A non-contiguous frame: start over rather than draw a line with a gap.
        this._series.clear();
        this._subscribe();
        break;
      }
    }
    this._seriesChanged.emit();
    if (this.metrics.length !== known) {
      this._metricsChanged.emit();
    }
  }

  private _subscribe(): void {
    if (this._viewers > 0) {
      const { _next: next, _width: width, _x: x } = this;
      this._socket.subscribe(this.id, { next, width, x, metrics: this._wanted() });
    }
  }

  /** The metrics of all viewers, sorted, as far as they fit into a message on the socket. */
  private _wanted(): string[] {
    let room = MESSAGE_ROOM;
    return [...new Set([...this._wants.values()].flat())]
      .filter(metric => (room -= JSON.stringify(metric).length + 1) >= 0)
      .sort();
  }

  private _x: XAxis = 'step';
  private _shownX: ShownAxis = 'step';
  private _epochEnded: { epoch: number; step: number } | null = null;
  private _xChosen = false;
  private _width = DEFAULT_WIDTH;
  private _viewers = 0;
  private _next = 0;
  private _submitted: Submitted | null | undefined = undefined;
  private readonly _wants = new Map<object, readonly string[]>();
  private _story: readonly StoryEvent[] = [];
  private readonly _marks = new MarkStore();
  private readonly _output = new OutputStore();
  private readonly _series = new SeriesStore();
  private readonly _timeline = new StepClock();
  private readonly _infoChanged = new Signal<this, void>(this);
  private readonly _storyChanged = new Signal<this, void>(this);
  private readonly _submittedChanged = new Signal<this, void>(this);
  private readonly _outputChanged = new Signal<this, void>(this);
  private readonly _metricsChanged = new Signal<this, void>(this);
  private readonly _seriesChanged = new Signal<this, void>(this);
}
