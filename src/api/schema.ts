// Made from jupyter_dtf/schema by `python -m jupyter_dtf.schema.typescript`. Change the structs there, not this file.

/** The life of a run. `RunState.step` knows which steps there are. */
export type RunState = 'pending' | 'launching' | 'running' | 'stopping' | 'succeeded' | 'failed' | 'stopped' | 'lost';

/** The life of one task's process. */
export type TaskState = 'pending' | 'starting' | 'running' | 'serving' | 'finished' | 'succeeded' | 'failed' | 'stopped';

/** The life of a cluster as a viewer sees it. */
export type ClusterState = 'starting' | 'running' | 'stopping' | 'stopped' | 'failed' | 'lost';

/** How far a run is. `done` of `total` (0 when unknown) units. */
export interface Progress {
  done: number;
  total: number;
  unit: string;
  /** The current epoch, counted from 1; 0 when the program has no epochs. */
  epoch: number;
  epochs: number;
}

/** One task of a run. `task` is its short name, `worker:1`. */
export interface TaskInfo {
  task: string;
  state: TaskState;
  /** The name of the Dask worker it runs on. */
  host: string;
  pid: number;
  /** `host:port`, reserved for its TensorFlow server while the run lasts. */
  endpoint: string;
  exit_code: number | null;
  /** The name of the signal that ended it (`SIGKILL`), if one did. */
  signal: string;
  /** The last line of the traceback, or why it was ended. */
  message: string;
  traceback: string;
}

/** What a viewer is told of a run: all but its events, output and points. */
export interface RunInfo {
  id: string;
  name: string;
  cluster: string;
  state: RunState;
  /** One line: why it waits, why it failed. */
  message: string;
  /** `fit`, `program`, `script` or `servers`; later `trial`. */
  kind: string;
  strategy: string;
  jobs: Record<string, number>;
  /** Seconds since the epoch, as are the next two. */
  created: number;
  started: number | null;
  ended: number | null;
  tasks: TaskInfo[];
  progress: Progress;
  /** The newest value of each metric, averaged over the tasks that report it. */
  latest: Record<string, number | null>;
  /** At most 60 values of the loss (or of the first metric), oldest first. */
  sparkline: number[];
  /** What the person chose: batch size, epochs, optimizer; shown in the dashboard. */
  parameters: Record<string, unknown>;
  run_dir: string;
  /** The sequence number that the run's next event will get. */
  next_seq: number;
}

/** A cluster to start. `options` are those of its kind (`KindInfo.fields`). */
export interface ClusterRequest {
  /** Empty: a free name is chosen. */
  name?: string;
  kind?: string;
  jobs?: Record<string, number>;
  options?: Record<string, unknown>;
  /** Stay until stopped, with or without clients. */
  keep?: boolean;
  /** Without `keep`: end this long after the last client has gone, never during a run. */
  grace_s?: number;
}

/** A change to a running cluster: new counts of tasks per job. */
export interface ClusterPatch {
  jobs: Record<string, number>;
}

export interface GpuInfo {
  /** What CUDA_VISIBLE_DEVICES calls it: its UUID. */
  id: string;
  index: number;
  name: string;
  memory_bytes: number;
  memory_used_bytes: number;
  /** 0 to 1. */
  utilization: number;
}

/** One Dask worker: the host that tasks run on. */
export interface HostInfo {
  name: string;
  address: string;
  machine: string;
  threads: number;
  /** The Dask worker's memory limit, or the machine's memory where it has none. */
  memory_bytes: number;
  /** Cores in use by the host and its tasks. */
  cpu: number;
  memory_used_bytes: number;
  /** Those that the Dask worker may use, in the order in which it takes them. */
  gpus: GpuInfo[];
  /** TensorFlow is imported and tasks start at once. */
  warm: boolean;
}

export interface ClusterInfo {
  name: string;
  kind: string;
  state: ClusterState;
  message: string;
  jobs: Record<string, number>;
  hosts: HostInfo[];
  created: number;
  active_runs: number;
  /** Dask's own dashboard, empty when it is off. */
  dashboard_url: string;
  /** What a person should know, such as more tasks than cores. */
  notes: string[];
}

/** One option of a kind of cluster, as a form shows it. */
export interface FieldInfo {
  name: string;
  title: string;
  type: string;
  default: unknown;
  help: string;
  minimum: number | null;
  maximum: number | null;
  choices: string[];
}

/** A kind of cluster. `lacks` says what is missing where it is not available. */
export interface KindInfo {
  kind: string;
  title: string;
  available: boolean;
  lacks: string;
  fields: FieldInfo[];
}

/** What is wrong with one field of a request. */
export interface Problem {
  field: string;
  message: string;
  level: string;
}

/** What a ClusterRequest would make. Ports are chosen at the start of each run, so they are shown as 0. */
export interface Preview {
  cluster_spec: Record<string, string[]>;
  /** TF_CONFIG as JSON text for each task, `worker:0` first. */
  tf_config: Record<string, string>;
  problems: Problem[];
}

/** A remembered cluster request. */
export interface Template {
  name: string;
  request: ClusterRequest;
}

/** Versions, so that the browser can tell a stale server from a missing one. */
export interface StatusInfo {
  version: string;
  dask: string;
  /** The installed version, empty where there is none. */
  tensorflow: string;
  /** What a person should know of this server, such as a store of past runs that cannot be read. */
  notes: string[];
}

/** Where Dask's own dashboard of a cluster is. */
export interface DashboardInfo {
  url: string;
}

/** The body of every error answer. */
export interface ErrorInfo {
  message: string;
  /** The name of the error's class. */
  error: string;
  field: string;
}

/** The run took a step in its life cycle. */
export interface RunChanged {
  type: 'run';
  state: RunState;
  message: string;
  time: number;
}

/** A task took a step in its life. */
export interface TaskChanged {
  type: 'task';
  task: string;
  state: TaskState;
  host: string;
  pid: number;
  endpoint: string;
  exit_code: number | null;
  signal: string;
  message: string;
  traceback: string;
  time: number;
}

/** Lines of output of a task. `first` is the number, within the task and stream, of the first line. */
export interface Logged {
  type: 'log';
  task: string;
  stream: string;
  first: number;
  lines: string[];
  time: number;
}

/** Something a person should know: a warning, a check that passed, a failure in words. */
export interface Note {
  type: 'note';
  level: string;
  title: string;
  text: string;
  task: string;
  time: number;
}

/** How far the run is, by the chief's count. */
export interface Progressed {
  type: 'progress';
  progress: Progress;
  time: number;
}

/** An epoch's logs, averaged over the tasks: what Keras's `History` records. `epoch` counts from 0. */
export interface EpochEnded {
  type: 'epoch';
  epoch: number;
  step: number;
  logs: Record<string, number | null>;
  time: number;
}

/** Send this run's events after sequence number `after` (-1: all), and its series `width` pixels wide. */
export interface Subscribe {
  type: 'subscribe';
  run: string;
  after?: number;
  width?: number;
  x?: string;
}

export interface Unsubscribe {
  type: 'unsubscribe';
  run: string;
}

/** All clusters; sent on connecting and after every change. */
export interface ClustersMessage {
  type: 'clusters';
  clusters: ClusterInfo[];
}

/** Runs that are new or have changed. The first message after connecting (`all`) holds every run known. */
export interface RunsMessage {
  type: 'runs';
  runs: RunInfo[];
  all: boolean;
  removed: string[];
}

/**
 * Events of a subscribed run but its points; `next_seq` is what to resume after, minus one.
 *
 * Each event is the struct of `schema.events` as JSON, with `seq` added.
 */
export interface EventsMessage {
  type: 'events';
  run: string;
  events: NumberedEvent[];
  next_seq: number;
}

/**
 * One line of one plot, decimated: keep the first `start` points that you have, then append these.
 *
 * null stands for a value that is not finite: a gap.
 */
export interface SeriesFrame {
  metric: string;
  /** `worker:1`; empty for the mean over the tasks by step, which is there when more than one task reports. */
  task: string;
  start: number;
  x: (number | null)[];
  y: (number | null)[];
}

/** What changed in the decimated series of a subscribed run. */
export interface SeriesMessage {
  type: 'series';
  run: string;
  frames: SeriesFrame[];
}

/** A message that could not be followed. */
export interface SocketError {
  type: 'error';
  message: string;
  run: string;
}

/** One execution of one operation. */
export interface TracedOp {
  step: number;
  /** The name of its node in the graph; of an eager operation its type. */
  op: string;
  /** As it was run: TensorFlow's optimizer may have replaced what the program said (`_FusedMatMul`). */
  op_type: string;
  /** `/job:worker/task:1/device:CPU:0`; ends with the task where the device is not known. */
  device: string;
  /** Microseconds since the trace's `origin_us`. */
  start_us: number;
  duration_us: number;
}

/** A tensor that travelled from one task to another. */
export interface Transfer {
  step: number;
  /** The name of the operation that made it. */
  tensor: string;
  /** The device that sent it. */
  source: string;
  target: string;
  bytes: number;
  /** When the receiver had asked for it and the sender had it. */
  start_us: number;
  duration_us: number;
}

/** A trace, in the order of starting times. */
export interface TraceData {
  /** Microseconds since the epoch, to which all times of the trace are relative. */
  origin_us: number;
  ops: TracedOp[];
  transfers: Transfer[];
  /** Operations that did not run where, or as, the program says, a sentence for each. */
  warnings: string[];
  /** How many operations, the shortest, are left out here. */
  left_out: number;
}

export type AnyEvent = RunChanged | TaskChanged | Logged | Note | Progressed | EpochEnded;

export type ClientMessage = Subscribe | Unsubscribe;

export type ServerMessage = ClustersMessage | RunsMessage | EventsMessage | SeriesMessage | SocketError;

/** An event with its number within its run, as the socket sends it. */
export type NumberedEvent = AnyEvent & { seq: number };
