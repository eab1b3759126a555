import { URLExt } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import type { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { API_PATH } from './rest';
import { OLDEST, PROTOCOL } from './schema';
import type { ClientMessage, HelloMessage, ServerMessage } from './schema';

/** State of the socket. `waiting`: closed, with a reconnection scheduled. */
export type SocketState = 'idle' | 'connecting' | 'open' | 'waiting' | 'closed';

/** The events and series of a run that are requested. */
export interface Subscription {
  /** The sequence number of the first requested event. */
  next: number;
  /** Points per series are decimated to about this many pixels. */
  width: number;
  x: string;
  /** The metrics whose series are requested. */
  metrics: readonly string[];
}

/** A subscription that the server has answered with an error. */
interface Refusal {
  /** The number of errors before, without a long time between them. */
  attempt: number;
  /** When the run is requested again, in the time of `performance.now()`. */
  due: number;
  timer: ReturnType<typeof setTimeout>;
}

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 30_000;
// The beginning of the error for a run that does not exist, as in backend/records/hub.py.
const UNKNOWN_RUN = 'There is no run with the id';

/**
 * Whether this page and the server have a protocol version in common. A server that reports none predates this check.
 */
export function understood(server: Partial<Pick<HelloMessage, 'protocol' | 'oldest'>>): boolean {
  const { protocol = 0, oldest = 0 } = server;
  return Math.max(oldest, OLDEST) <= Math.min(protocol, PROTOCOL);
}

/**
 * The delay in milliseconds before attempt number `attempt` (from 0). It grows exponentially, and its upper half is
 * random.
 */
export function backoff(attempt: number, random: () => number = Math.random): number {
  const longest = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt);
  return longest * (0.5 + 0.5 * random());
}

/**
 * The single WebSocket to the server. It reconnects automatically and resumes each subscribed run where it stopped, so
 * that a lost connection leaves no gaps and repeats nothing.
 */
export class EventSocket implements IDisposable {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** The socket's URL without its query. */
  get url(): string {
    return URLExt.join(this._settings.wsUrl, API_PATH, 'events');
  }

  get state(): SocketState {
    return this._state;
  }

  get stateChanged(): ISignal<this, SocketState> {
    return this._stateChanged;
  }

  get message(): ISignal<this, ServerMessage> {
    return this._message;
  }

  get isDisposed(): boolean {
    return this._state === 'closed';
  }

  /** Open the socket now, even while waiting for the next attempt. */
  connect(): void {
    if (this._state === 'idle' || this._state === 'waiting') {
      this._open();
    }
  }

  /**
   * Subscribe to a run, or change the width or x axis of a subscription. Subscriptions are repeated after every
   * reconnect.
   */
  subscribe(run: string, subscription: Subscription): void {
    this._subscriptions.set(run, { ...subscription });
    this._ask(run);
  }

  /** Request the series of other metrics of a subscribed run. */
  show(run: string, metrics: readonly string[]): void {
    const subscription = this._subscriptions.get(run);
    if (subscription) {
      subscription.metrics = metrics;
      this._send({ type: 'show', run, metrics: [...metrics] });
    }
  }

  unsubscribe(run: string): void {
    if (this._subscriptions.delete(run)) {
      this._forget(run);
      this._send({ type: 'unsubscribe', run });
    }
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    clearTimeout(this._timer);
    this._drop();
    [...this._refusals.keys()].forEach(run => this._forget(run));
    this._subscriptions.clear();
    this._setState('closed');
    Signal.clearData(this);
  }

  private _open(): void {
    clearTimeout(this._timer);
    this._drop();
    this._setState('connecting');
    const { token, appendToken, WebSocket } = this._settings;
    let url = `${this.url}?protocol=${PROTOCOL}&oldest=${OLDEST}`;
    if (appendToken && token !== '') {
      url += `&token=${encodeURIComponent(token)}`;
    }
    const socket = new WebSocket(url);
    this._socket = socket;
    this._foreign = false;
    socket.onopen = () => {
      this._setState('open');
      for (const run of this._subscriptions.keys()) {
        this._ask(run);
      }
    };
    socket.onmessage = (event: MessageEvent<string>) => this._receive(event.data);
    socket.onclose = () => this._lost();
  }

  private _receive(data: string): void {
    const message = JSON.parse(data) as ServerMessage;
    if (message.type === 'hello') {
      this._foreign = !understood(message);
    }
    if (this._foreign) {
      return; // its messages may have another meaning here; the panel shows the user what to do
    }
    // A server that accepts a connection and drops it immediately has not recovered; only messages reset the attempts.
    this._attempt = 0;
    if (message.type === 'events' || message.type === 'series') {
      const subscription = this._subscriptions.get(message.run);
      if (!subscription) {
        return;
      }
      if (message.type === 'events') {
        subscription.next = Math.max(subscription.next, message.next_seq);
      }
      clearTimeout(this._refusals.get(message.run)?.timer); // the server has kept the subscription
    } else if (message.type === 'error' && !message.message.startsWith(UNKNOWN_RUN)) {
      this._askLater(message.run);
    }
    this._message.emit(message);
  }

  /** Subscribe again after a pause, which grows if the server refuses a run several times. */
  private _askLater(run: string): void {
    if (!this._subscriptions.has(run)) {
      return;
    }
    const before = this._refusals.get(run);
    const now = performance.now();
    // An error long after the run was last requested is a new one.
    const attempt = before && now < before.due + LONGEST_DELAY_MS ? before.attempt + 1 : 0;
    const delay = backoff(attempt);
    this._forget(run);
    this._refusals.set(run, { attempt, due: now + delay, timer: setTimeout(() => this._ask(run), delay) });
  }

  private _forget(run: string): void {
    clearTimeout(this._refusals.get(run)?.timer);
    this._refusals.delete(run);
  }

  private _ask(run: string): void {
    const subscription = this._subscriptions.get(run);
    if (subscription) {
      clearTimeout(this._refusals.get(run)?.timer);
      const { next, width, x, metrics } = subscription;
      this._send({ type: 'subscribe', run, after: next - 1, width, x, metrics: [...metrics] });
    }
  }

  private _send(message: ClientMessage): void {
    // Nothing is queued while the socket is not open: opening sends all subscriptions again.
    if (this._state === 'open') {
      this._socket?.send(JSON.stringify(message));
    }
  }

  private _lost(): void {
    this._drop();
    this._timer = setTimeout(() => this._open(), backoff(this._attempt));
    this._attempt += 1;
    this._setState('waiting');
  }

  private _drop(): void {
    const socket = this._socket;
    this._socket = null;
    if (socket) {
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.close();
    }
  }

  private _setState(state: SocketState): void {
    if (state !== this._state) {
      this._state = state;
      this._stateChanged.emit(state);
    }
  }

  private _foreign = false;
  private _state: SocketState = 'idle';
  private _socket: WebSocket | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _attempt = 0;
  private readonly _subscriptions = new Map<string, Subscription>();
  private readonly _refusals = new Map<string, Refusal>();
  private readonly _stateChanged = new Signal<this, SocketState>(this);
  private readonly _message = new Signal<this, ServerMessage>(this);
}
