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

/** A host that is wanted, with its devices. */
export interface HostDesign {
  name: string;
  cpus: number;
  /** 0: not known. */
  memory_bytes: number;
  /** The memory of each GPU in bytes, 0 where it is not known; `GPU:0` first. */
  gpus: number[];
}

/** A task put on a device of a host. Tasks without a place go where there is room. */
export interface TaskPlace {
  job: string;
  index: number;
  host: string;
  /** `CPU`, or `GPU:1`: the host's second GPU. */
  device: string;
  /** The most it may take of the device's memory; 0: all. */
  memory_bytes: number;
}

/** A cluster to start. `options` are those of its kind (`KindInfo.fields`). */
export interface ClusterRequest {
  /** Empty: a free name is chosen. */
  name?: string;
  kind?: string;
  jobs?: Record<string, number>;
  options?: Record<string, unknown>;
  /** The hosts that were drawn, which have to be there; empty: whatever hosts the kind makes. */
  hosts?: HostDesign[];
  /** Tasks with a place of their own; the others go where there is room. */
  tasks?: TaskPlace[];
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
  /** The host of the design that it is, where the cluster was drawn. */
  drawn: string;
}

/** Where a task of a cluster's jobs is, in a run that asks for nothing else. */
export interface TaskSeat {
  /** `worker:1`. */
  task: string;
  host: string;
  /** The numbers of the host's GPUs that are its `GPU:0` and so on; empty: it computes on the CPU. */
  gpus: number[];
  /** The most it takes of each of its GPUs; 0: what it needs. */
  memory_bytes: number;
}

export interface ClusterInfo {
  name: string;
  kind: string;
  state: ClusterState;
  message: string;
  jobs: Record<string, number>;
  hosts: HostInfo[];
  /** By rank; empty until the hosts are there. */
  tasks: TaskSeat[];
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
  /** TF_CONFIG as JSON text for each task, `worker:0` first; of the first hundred. */
  tf_config: Record<string, string>;
  problems: Problem[];
  /** Those that there would be, as far as that is known beforehand. */
  hosts: HostDesign[];
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

/** One layer that computes something itself. A layer that is called several times is one node. */
export interface Layer {
  /** Its path in the model, `encoder/dense_1`: the containers it is in, and its name. */
  id: string;
  /** Its class, `Dense`. */
  kind: string;
  calls: number;
  /** Of the first call, with a batch of one example. */
  input_shapes: number[][];
  output_shapes: number[][];
  /** Numbers in its weights, trainable or not. */
  parameters: number;
  parameter_bytes: number;
  gradient_bytes: number;
  /** What the optimizer keeps for its weights. */
  slot_bytes: number;
  /** What its operations put out in a forward pass, which the backward pass may need. */
  activation_bytes: number;
  /** Floating-point operations of a forward pass: a multiplication and an addition are two. */
  flops: number;
}

/** What a layer puts out is needed by another. */
export interface Edge {
  source: string;
  target: string;
  /** In a forward pass; the backward pass sends as many the other way. */
  bytes: number;
}

/** The layers in the order in which they are first called, and what travels between them. */
export interface LayerGraph {
  model: string;
  layers: Layer[];
  edges: Edge[];
  /** What could not be seen. */
  notes: string[];
}

/** Where each layer runs. A layer is in `devices` or in `splits`. */
export interface Placement {
  /** The device of each layer, `/job:worker/task:1/device:CPU:0`. */
  devices: Record<string, string>;
  /** Layers whose columns are parted: the devices that each hold a part, in the order of the columns. */
  splits: Record<string, string[]>;
  /** Layers whose place a person chose. Automatic placement leaves them there. */
  pinned: string[];
}

/** A device that layers may be placed on. */
export interface Device {
  /** `/job:worker/task:1/device:CPU:0`. */
  name: string;
  flops_per_s: number;
  /** 0: as much as is wanted. */
  memory_bytes: number;
}

/** What it takes to send something from one device to another. */
export interface Link {
  bytes_per_s: number;
  latency_s: number;
}

/** What a short run on the real devices measured. */
export interface Calibration {
  /** Examples of the microbatch it was measured with. */
  batch_size: number;
  devices: Device[];
  link: Link;
  /** On a device as fast as the first: the forward and the backward pass of a microbatch, the update of a step. */
  layer_seconds: Record<string, number[]>;
  /** Of each step, beside what layers and transfers take. */
  overhead_s: number;
}

/** What one device does in a step, and what it needs for it. */
export interface DeviceLoad {
  device: string;
  /** Needed: weights, gradients, slots, and the activations of all microbatches of a step. */
  memory_bytes: number;
  /** There; 0 where that is not known. */
  memory_limit_bytes: number;
  /** Of the work of a step, from 0 to 1. */
  share: number;
  /** Of each step. */
  busy_s: number;
  /** In each step. */
  sent_bytes: number;
  received_bytes: number;
  layers: number;
  /** Why it does not fit, with the sizes; empty when it does. */
  problem: string;
}

/** An edge of the graph that goes from one device to another. */
export interface Cut {
  source: string;
  target: string;
  source_device: string;
  target_device: string;
  /** In the forward pass of one microbatch. */
  bytes: number;
}

/** One device busy with one microbatch, for the timeline. */
export interface Slot {
  device: string;
  microbatch: number;
  phase: string;
  start_s: number;
  duration_s: number;
}

/** What a step is expected to take. */
export interface Prediction {
  step_seconds: number;
  /** The part of the step, from 0 to 1, in which the devices wait for each other. */
  bubble: number;
  batch_size: number;
  microbatches: number;
  /** By a run on the real devices; otherwise seconds are worth something only in comparison. */
  calibrated: boolean;
  devices: DeviceLoad[];
  cuts: Cut[];
  timeline: Slot[];
  problems: Problem[];
}

/** The cluster that is wanted. */
export interface ClusterDesign {
  /** Empty: a free name is chosen. */
  name: string;
  kind: string;
  jobs: Record<string, number>;
  /** Those of its kind. */
  options: Record<string, unknown>;
  /** Empty: those that the kind makes by itself. */
  hosts: HostDesign[];
  tasks: TaskPlace[];
}

/** Where the model came from, so that it can be read again. */
export interface ModelSource {
  kind: string;
  /** Of the file, or of the notebook whose kernel has the variable; relative to the server's folder. */
  path: string;
  variable: string;
}

/** A model as its layers. */
export interface ModelDesign {
  graph: LayerGraph;
  source: ModelSource;
}

/** How the model is to be trained. */
export interface RunSettings {
  /** Of a step, over all microbatches and replicas. */
  batch_size: number;
  microbatches: number;
  replicas: number;
  epochs: number;
}

/** A `.dtf` document. */
export interface Design {
  version: number;
  cluster: ClusterDesign;
  model: ModelDesign | null;
  placement: Placement;
  run: RunSettings;
  calibration: Calibration | null;
  /** What the designer keeps of the picture itself: folded blocks, positions. */
  drawing: Record<string, unknown>;
}

/** What is wrong with a design: with a field of it, or with the text, which then could not be read. */
export interface DesignProblem {
  field: string;
  message: string;
  level: string;
  /** From 1, as `column`; 0 where it is a field that is meant. */
  line: number;
  column: number;
}

/** What a design would make, and what is wrong with it. Ports are 0: each run chooses its own. */
export interface DesignReport {
  cluster_spec: Record<string, string[]>;
  /** TF_CONFIG as JSON text for each task, `worker:0` first; of the first hundred. */
  tf_config: Record<string, string>;
  /** The device that each task computes on, `/job:worker/task:1/device:GPU:0`. */
  devices: Record<string, string>;
  problems: DesignProblem[];
  prediction: Prediction | null;
  /** The design as it is written today, where the text that was sent is of an older version. */
  text: string;
}

/** A model in a file, by its path below the server's folder. */
export interface DescribeRequest {
  path: string;
}

/** A design whose model is in a file, and the cluster to measure it on. */
export interface ProfileRequest {
  design: Design;
  cluster: string;
}

/** A layer of a run: where it was to be, and where its operations ran. */
export interface LayerPlace {
  layer: string;
  planned: string[];
  actual: string[];
}

/** Where a run's layers were to be and where they were, and which device was busy when in the last step traced. */
export interface RunPlacement {
  layers: LayerPlace[];
  timeline: Slot[];
  step_seconds: number;
}

export type AnyEvent = RunChanged | TaskChanged | Logged | Note | Progressed | EpochEnded;

export type ClientMessage = Subscribe | Unsubscribe;

export type ServerMessage = ClustersMessage | RunsMessage | EventsMessage | SeriesMessage | SocketError;

/** What the fields are that a text leaves out. Copy before you change one. */
export const DEFAULTS = {
  HostDesign: {"cpus": 1, "memory_bytes": 0, "gpus": []},
  TaskPlace: {"device": "CPU", "memory_bytes": 0},
  Layer: {"calls": 1, "input_shapes": [], "output_shapes": [], "parameters": 0, "parameter_bytes": 0, "gradient_bytes": 0, "slot_bytes": 0, "activation_bytes": 0, "flops": 0},
  LayerGraph: {"notes": []},
  Placement: {"devices": {}, "splits": {}, "pinned": []},
  Link: {"bytes_per_s": 1000000000.0, "latency_s": 0.0002},
  Device: {"memory_bytes": 0},
  Calibration: {"layer_seconds": {}, "overhead_s": 0.0},
  ClusterDesign: {"name": "", "kind": "local", "jobs": {"worker": 2}, "options": {}, "hosts": [], "tasks": []},
  ModelSource: {"kind": "none", "path": "", "variable": ""},
  ModelDesign: {"source": {"kind": "none", "path": "", "variable": ""}},
  RunSettings: {"batch_size": 64, "microbatches": 8, "replicas": 1, "epochs": 1},
  Design: {"version": 1, "cluster": {"name": "", "kind": "local", "jobs": {"worker": 2}, "options": {}, "hosts": [], "tasks": []}, "model": null, "placement": {"devices": {}, "splits": {}, "pinned": []}, "run": {"batch_size": 64, "microbatches": 8, "replicas": 1, "epochs": 1}, "calibration": null, "drawing": {}}
};

/** An event with its number within its run, as the socket sends it. */
export type NumberedEvent = AnyEvent & { seq: number };
