import { ISignal, Signal } from '@lumino/signaling';

import { ApiError, RestApi } from '../api/rest';
import type { StatusInfo } from '../api/schema';
import { understood } from '../api/socket';
import type { EventSocket } from '../api/socket';
import { AnswerOrder } from './answerorder';

/**
 * State of the connection to the server extension. `missing`: the Jupyter server does not know it; `stale`: its version
 * differs from the page's; `foreign`: it has no protocol version in common with the page, which shows none of its data;
 * `refused`: it does not authorize this user; `blocked`: it answers requests, but its WebSocket cannot be opened.
 */
export type ServerHealth = 'connecting' | 'ok' | 'offline' | 'missing' | 'stale' | 'foreign' | 'refused' | 'blocked';

/**
 * The socket counts as blocked once it has been lost this many times without a message while requests are answered.
 */
const BLOCKED_AFTER = 3;

/** Whether the server extension is available and matches this page. */
export class ServerModel {
  constructor(
    private readonly _api: RestApi,
    private readonly _socket: EventSocket,
    readonly version: string
  ) {
    _socket.stateChanged.connect((_, state) => {
      if (state === 'open' || state === 'waiting') {
        void this.check();
      }
    });
    // A proxy may accept a socket and drop it: only a message proves that it is open.
    _socket.message.connect(() => {
      this._lost = 0;
      if (this._health === 'blocked') {
        void this.check();
      }
    });
  }

  get health(): ServerHealth {
    return this._health;
  }

  get status(): StatusInfo | null {
    return this._status;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The socket's URL, which a proxy must let through. */
  get socketUrl(): string {
    return this._socket.url;
  }

  /** Query the server's state. Called when the socket opens or is lost: a refused socket does not report the reason. */
  async check(): Promise<void> {
    const isNewest = this._order.ask();
    const [answer] = await Promise.allSettled([this._api.status()]);
    if (isNewest()) {
      this._set(answer.status === 'fulfilled' ? this._judge(answer.value) : this._judgeFailure(answer.reason));
    }
  }

  /** Retry now, without waiting for the socket's next attempt. */
  retry(): void {
    this._socket.connect();
    void this.check();
  }

  private _judgeFailure(error: unknown): ServerHealth {
    this._lost = 0; // the problem is not the socket alone
    if (!(error instanceof ApiError)) {
      return 'offline';
    }
    return error.status === 404 ? 'missing' : error.status === 401 || error.status === 403 ? 'refused' : 'offline';
  }

  private _judge(status: StatusInfo): ServerHealth {
    this._status = status;
    if (!understood(status)) {
      return 'foreign';
    }
    if (release(status.version) !== release(this.version)) {
      return 'stale';
    }
    this._lost += this._socket.state === 'waiting' ? 1 : 0;
    if (this._lost >= BLOCKED_AFTER) {
      return 'blocked';
    }
    return this._socket.state === 'open' ? 'ok' : this._health === 'connecting' ? 'connecting' : 'offline';
  }

  private _set(health: ServerHealth): void {
    if (health !== this._health) {
      this._health = health;
      this._changed.emit();
    }
  }

  private readonly _order = new AnswerOrder();
  private _lost = 0;
  private _health: ServerHealth = 'connecting';
  private _status: StatusInfo | null = null;
  private readonly _changed = new Signal<this, void>(this);
}

/** The numbers of a version: npm and Python write pre-releases differently (`0.1.0-alpha.1`, `0.1.0a1`). */
function release(version: string): string {
  return /^\d+\.\d+\.\d+/.exec(version)?.[0] ?? version;
}
