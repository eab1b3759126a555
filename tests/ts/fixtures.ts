import { ServerConnection } from '@jupyterlab/services';

import {
  type CheckpointInfo,
  type ClientMessage,
  type ClusterInfo,
  DEFAULTS,
  type Forecast,
  type ForecastPoint,
  type GpuInfo,
  type KindInfo,
  type Note,
  type RunInfo,
  type ServerMessage,
  type TaskInfo,
  type TraceData,
  type TracedOp
} from '../../src/api/schema';

export function taskInfo(task: string, change: Partial<TaskInfo> = {}): TaskInfo {
  return {
    task,
    state: 'running',
    host: '0',
    gpus: [],
    pid: 100,
    endpoint: '127.0.0.1:2222',
    attempt: 0,
    exit_code: null,
    signal: '',
    message: '',
    traceback: '',
    ...change
  };
}

/** Returns a warning with its sequence number within the run. */
export function noteEvent(seq: number, change: Partial<Note> = {}): Note & { seq: number } {
  return {
    type: 'note',
    time: 1,
    attempt: 0,
    level: 'warning',
    title: '',
    text: '',
    task: '',
    metric: '',
    step: null,
    mark: '',
    alarm: '',
    seq,
    ...change
  };
}

export function runInfo(id: string, change: Partial<RunInfo> = {}): RunInfo {
  return {
    id,
    name: `name-${id}`,
    cluster: 'digits',
    state: 'running',
    message: '',
    kind: 'fit',
    strategy: 'allreduce',
    jobs: { worker: 2 },
    created: 1000,
    started: 1001,
    ended: null,
    tasks: [taskInfo('worker:0'), taskInfo('worker:1')],
    progress: { done: 58, total: 100, unit: 'step', epoch: 3, epochs: 5 },
    latest: { loss: 0.031, accuracy: 0.98 },
    headline: { loss: 0.031, accuracy: 0.98 },
    not_finite: {},
    slow: {},
    checkpoint: null,
    profile: null,
    sparkline: [3, 2, 1],
    sparkline_steps: [0, 2],
    values: {},
    pruned: false,
    trial: null,
    parameters: { batch_size: 64, optimizer: 'Adam' },
    run_dir: '',
    goes_on: false,
    resumed_from: '',
    cluster_id: '',
    origin: { model: '', weights: null, data: '', versions: {}, directory: '', commit: '', branch: '' },
    best: {},
    alarms: [],
    marks: { name: '', tags: [], note: '', archived: false, deleted: null },
    next_seq: 0,
    points_seq: 0,
    ...change
  };
}

export function checkpointInfo(step: number, change: Partial<CheckpointInfo> = {}): CheckpointInfo {
  return {
    step,
    epoch: 2,
    step_in_epoch: 0,
    time: 4,
    bytes: 2048,
    metric: null,
    path: `/runs/a/${step}`,
    seconds: 1.2,
    ...change
  };
}

export function gpuInfo(change: Partial<GpuInfo> = {}): GpuInfo {
  return {
    id: 'GPU-0',
    index: 0,
    name: 'L4',
    memory_bytes: 2 ** 30,
    memory_used_bytes: 0,
    utilization: 0,
    power_watts: null,
    temperature_celsius: null,
    pcie_received_bytes_per_second: null,
    pcie_sent_bytes_per_second: null,
    nvlink_received_bytes_per_second: null,
    nvlink_sent_bytes_per_second: null,
    ...change
  };
}

export function clusterInfo(name: string, change: Partial<ClusterInfo> = {}): ClusterInfo {
  return {
    name,
    kind: 'local',
    state: 'running',
    message: '',
    jobs: { worker: 2 },
    hosts: [
      {
        name: '0',
        address: 'tls://host:1',
        machine: 'node-a',
        threads: 4,
        memory_bytes: 4 * 2 ** 30,
        cpu: 2,
        memory_used_bytes: 1.2 * 2 ** 30,
        gpus: [],
        warm: true,
        unguarded: '',
        slots: 0,
        drawn: '',
        problem: ''
      }
    ],
    coming: [],
    tasks: [],
    created: 1000,
    active_runs: 0,
    notes: [],
    warnings: [],
    silent_s: 0,
    incompatible: '',
    ...change
  };
}

export const KINDS: KindInfo[] = [
  {
    kind: 'local',
    title: 'This machine',
    available: true,
    missing: '',
    fields: [
      {
        name: 'threads_per_host',
        title: 'Threads',
        type: 'integer',
        default: 0,
        help: 'Divided among the tasks.',
        minimum: 0,
        maximum: 64,
        choices: [],
        counts_hosts: false
      },
      {
        name: 'memory_bytes',
        title: 'Memory',
        type: 'bytes',
        default: 0,
        help: '',
        minimum: 0,
        maximum: null,
        choices: [],
        counts_hosts: false
      }
    ]
  },
  { kind: 'slurm', title: 'Slurm', available: false, missing: 'dask-jobqueue', fields: [] }
];

/** A WebSocket that the test controls. The newest one is `FakeSocket.last`. */
export class FakeSocket {
  static readonly all: FakeSocket[] = [];

  static get last(): FakeSocket {
    return FakeSocket.all[FakeSocket.all.length - 1]!;
  }

  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }

  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  closed = false;
  readonly sent: ClientMessage[] = [];

  send(data: string): void {
    this.sent.push(JSON.parse(data) as ClientMessage);
  }

  close(): void {
    this.closed = true;
  }

  open(): void {
    this.onopen?.();
  }

  lose(): void {
    this.onclose?.();
  }

  receive(message: ServerMessage): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

/** A request that the fake server has received. */
export interface Seen {
  method: string;
  path: string;
  body: unknown;
}

/** Returns the settings of a server that responds with the value of `answer`, possibly a promise: a body, or a Response. */
export function fakeSettings(answer: (seen: Seen) => unknown = () => ({})): {
  settings: ServerConnection.ISettings;
  seen: Seen[];
} {
  const seen: Seen[] = [];
  const settings = ServerConnection.makeSettings({
    baseUrl: 'http://server/base/',
    wsUrl: 'ws://server/base/',
    token: 'secret',
    appendToken: true,
    WebSocket: FakeSocket as unknown as typeof WebSocket,
    fetch: async (input: RequestInfo | URL) => {
      const request = input as Request;
      const text = await request.text();
      const one: Seen = {
        method: request.method,
        path: new URL(request.url).pathname,
        body: text === '' ? undefined : JSON.parse(text)
      };
      seen.push(one);
      const body = await answer(one);
      return body instanceof Response ? body : new Response(JSON.stringify(body), { status: 200 });
    }
  });
  return { settings, seen };
}

export function tracedOp(change: Partial<TracedOp> = {}): TracedOp {
  return {
    step: 3,
    op: 'dense/MatMul',
    op_type: 'MatMul',
    device: '/job:worker/task:0/device:CPU:0',
    start_us: 0,
    duration_us: 10,
    ...change
  };
}

/** Returns a trace of two steps of two workers, one of which fetches a tensor from a parameter server. */
export function traceData(change: Partial<TraceData> = {}): TraceData {
  return {
    origin_us: 1e15,
    ops: [
      tracedOp(),
      tracedOp({
        op: 'relu',
        op_type: 'Relu',
        device: '/job:worker/task:1/device:GPU:0',
        start_us: 5,
        duration_us: 40
      }),
      tracedOp({ start_us: 10, duration_us: 20 }),
      tracedOp({ step: 4, op: 'late', op_type: 'Sum', start_us: 200, duration_us: 5 })
    ],
    transfers: [
      {
        step: 3,
        tensor: 'weights',
        source: '/job:ps/task:0/device:CPU:0',
        target: '/job:worker/task:0/device:CPU:0',
        bytes: 2560,
        start_us: 1,
        duration_us: 4
      }
    ],
    warnings: ['folded (MatMul), placed on /job:worker/task:0, did not run'],
    left_out: 0,
    profile: 0,
    ...change
  };
}

/** Returns a forecast for this number of tasks, with steps of 0.1 s. */
export function forecastPoint(tasks: number, speed: number, change: Partial<ForecastPoint> = {}): ForecastPoint {
  return {
    tasks,
    servers: 0,
    machines: tasks,
    batch_size: 10 * tasks,
    step_seconds: 0.1,
    parts: { input_s: 0, compute_s: 0.06, hidden_s: 0.02, exposed_s: 0.03, update_s: 0.01, idle_s: 0 },
    examples_per_second: speed,
    low: 0.8 * speed,
    high: 1.2 * speed,
    linear: 100 * tasks,
    efficiency: speed / (100 * tasks),
    marginal: 1,
    updates_per_second: 10,
    staleness: 0,
    dropped: 0,
    sent_bytes: 0,
    memory_bytes: 2 ** 30,
    memory_limit_bytes: 0,
    limit: '',
    problem: '',
    ...change
  };
}

export function forecastOf(title: string, points: ForecastPoint[] = [forecastPoint(1, 100)]): Forecast {
  return {
    model: 'digits',
    settings: { ...DEFAULTS.ForecastSettings, tasks: [], link: null },
    title,
    source: 'published',
    points,
    pays_until: 8,
    why: 'From 8 to 64 tasks it does not pay: the exchange takes too long.',
    notes: ['Step times are assumed to vary by 2% from task to task.'],
    problems: []
  };
}
