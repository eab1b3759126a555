// Made from jupyter_dtf/schema by `python -m jupyter_dtf.schema.typescript`. Change the structs there, not this file.

/** What this page speaks, and the oldest that it understands: `jupyter_dtf/schema/protocol.py`. */
export const PROTOCOL = 1;
export const OLDEST = 1;

/** The life of a run. `RunState.step` knows which steps there are. */
export type RunState = 'pending' | 'launching' | 'running' | 'restarting' | 'pausing' | 'paused' | 'stopping' | 'succeeded' | 'failed' | 'stopped' | 'lost';

/** The life of one task's process. */
export type TaskState = 'pending' | 'starting' | 'running' | 'serving' | 'finished' | 'succeeded' | 'failed' | 'stopped' | 'lost';

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
  /** How often it was started again. */
  attempt: number;
  /** The name of the Dask worker it runs on. */
  host: string;
  pid: number;
  /** `host:port`, reserved for its TensorFlow server while the run lasts. */
  endpoint: string;
  /** The GPUs that it has, as CUDA_VISIBLE_DEVICES names them: numbers on its machine, or UUIDs. */
  gpus: string[];
  exit_code: number | null;
  /** The name of the signal that ended it (`SIGKILL`), if one did. */
  signal: string;
  /** The last line of the traceback, or why it was ended. */
  message: string;
  traceback: string;
}

/** The best value of a metric, and where it was. */
export interface Best {
  value: number;
  step: number;
  /** Counted from 1; 0 where there are no epochs. */
  epoch: number;
}

/** A piece of code that a run was submitted with. */
export interface Source {
  /** The path of its file, `cell` for one of a notebook, or the name of a function. */
  name: string;
  text: string;
}

/** What is known of a run beside what was asked for. It is small: lists of runs have it, and code is an event. */
export interface Origin {
  /** The model's name; empty for a program of which nothing is known. */
  model: string;
  /** So many parameters the model has. None: it had not been built, or is made by the tasks. */
  weights: number | null;
  /** The form of the training data: `arrays`, `tf.data.Dataset`, `function`. */
  data: string;
  /** By names as people write them: `TensorFlow`, `Keras`, `jupyter_dtf`, `Python`. */
  versions: Record<string, string>;
  /** The working directory. */
  directory: string;
  /** Of the Git repository that the working directory is in: the commit that is checked out. Empty: in none. */
  commit: string;
  /** Its branch; empty where none is checked out. */
  branch: string;
}

/** What a person has said of a run, as it is kept. */
export interface RunMarks {
  /** What the run is called now; empty: as it was submitted. */
  name: string;
  tags: string[];
  note: string;
  /** Lists leave it out unless they are asked for it. */
  archived: boolean;
  /** When it was deleted, in seconds since the epoch: it is in no list, and for a while it can be had back. */
  deleted: number | null;
}

/** What a person says of a run. What is null stays as it is; an empty `name` gives the run its own back. */
export interface RunPatch {
  name?: string | null;
  tags?: string[] | null;
  note?: string | null;
  archived?: boolean | null;
  deleted?: boolean | null;
}

/** Something that a person wanted to be told of. */
export interface Alarm {
  /** `nan`, `no improvement`, `idle`, `memory` or `end`. */
  about: string;
  title: string;
  text: string;
  task: string;
  /** When it was noticed, in seconds since the epoch. */
  time: number;
}

/** Which trial of which search a run is. Its parameters are the run's own, its values are told at its end. */
export interface TrialInfo {
  /** The search's id, the same for all its trials, those of other processes that go on with it included. */
  search: string;
  /** What the search is called. */
  name: string;
  /** Counted from 0. */
  number: number;
  /**
   * The metrics that count, the first first, and whether each is to be `minimize`d or `maximize`d. None: a
   * list of trials, of which none is better than another.
   */
  objectives: Record<string, string>;
  /** The names of the parameters that are searched, in the order of the space. */
  parameters: string[];
  /** Those of them that are drawn from a logarithmic range. */
  logarithmic: string[];
  /** Those whose value is no plain one, and stands among the run's parameters as Python shows it. */
  in_words: string[];
  /** How many trials the search is to have; 0 where it has no such end. */
  most: number;
  /** Whether more can be asked for while it runs. */
  may_grow: boolean;
  /** So many more than `most` somebody has asked for while this one ran. */
  asked_more: number;
  /** Somebody has asked while this one ran that the search ends. */
  asked_stop: boolean;
}

/** What the program that drives a search is asked to do: to `stop` it, or to have so many `more` trials. */
export interface SearchRequest {
  stop?: boolean;
  more?: number;
}

/**
 * A run's summary: its descriptor with its events applied, up to `next_seq`. It has no output and no points.
 *
 * It is made by `backend/records/apply_event.py` and `run_record.py` alone. What is kept or sent of it is a cache
 * of that: of two summaries, the one with the higher `next_seq` knows more.
 */
export interface RunInfo {
  id: string;
  name: string;
  cluster: string;
  /** `fit`, `predict`, `evaluate`, `program`, `script`, `servers`, `profile` or `trial`. */
  kind: string;
  strategy: string;
  jobs: Record<string, number>;
  /** Seconds since the epoch, as are all times. */
  created: number;
  /** What the person chose: batch size, epochs, optimizer; shown in the dashboard. */
  parameters: Record<string, unknown>;
  run_dir: string;
  /** Whether it writes checkpoints from which it, or another run, can go on. */
  goes_on: boolean;
  /** The id of the run from whose checkpoint it goes on; empty where that is none, or is not known. */
  resumed_from: string;
  /** What it was made of; empty of runs of before there was such a record. */
  origin: Origin;
  /** Which trial of which search it is; None for a run that is none. */
  trial: TrialInfo | null;
  state: RunState;
  /** One line: why it waits, why it failed. */
  message: string;
  started: number | null;
  ended: number | null;
  /** Those that events have told of: empty until it is planned where they run. */
  tasks: TaskInfo[];
  progress: Progress;
  /** The newest value of each metric, averaged over the tasks that report it. */
  latest: Record<string, number | null>;
  /**
   * What lists show of `latest`: the first stands for the run. A trial's objective, otherwise its loss, or the
   * first metric that its program reports; never one of the machine's. Of a run that has ended, the last epoch's.
   */
  headline: Record<string, number | null>;
  /** Metrics with a value that is not finite: a sentence on the first, `loss became NaN at step 8 on worker:1`. */
  not_finite: Record<string, string>;
  /**
   * The best value so far of each metric of `headline` of which it is known whether more or less is better: of an
   * epoch, or, of a program that has none, of a point. Only points tell it all, and a run's record.
   */
  best: Record<string, Best>;
  /** The tasks for which the others wait in every step now, and a sentence on each. */
  slow: Record<string, string>;
  /** What somebody wanted to be told of, the newest `MOST_KEPT`, oldest first. */
  alarms: Alarm[];
  /** The last that was written; None while there is none. */
  checkpoint: CheckpointInfo | null;
  /**
   * At most 60 values of a trial's objective, or of the loss (or of the first metric of `headline`): the oldest
   * first.
   */
  sparkline: number[];
  /** The steps of the first and the last of them; empty where there is none. */
  sparkline_steps: number[];
  /** What a trial's program has returned for its objectives. Where it has returned none, `latest` counts. */
  values: Record<string, number | null>;
  /** Whether a trial is ended because it did not promise enough. */
  pruned: boolean;
  /** What a person has said of it, which no event tells: the hub of each viewer adds it, and the name it has now. */
  marks: RunMarks;
  /** The sequence number of the first event that is not in here: that of the run's next one, where all are. */
  next_seq: number;
  /**
   * The same for what only points tell: `latest`, `headline` and the sparkline. 0 where nobody has looked into
   * points, which the controller passes on as bytes.
   */
  points_seq: number;
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

/** Where a run is to go on, and from which of its checkpoints. */
export interface ResumeRequest {
  /** Empty: the one that it was on. */
  cluster?: string;
  /** None: the newest. */
  step?: number | null;
}

/** Where an example is wanted: a folder, as the contents manager of the server calls it. */
export interface ExampleRequest {
  folder: string;
}

/** The copy of an example, under a name that was free. */
export interface ExampleCopy {
  path: string;
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
  /** Why the ports of TensorFlow's servers cannot be closed to others on this machine; empty: they are. */
  unguarded: string;
  /** How many of the tasks it takes, beside what other hosts say; 0: as many as any other. */
  slots: number;
  /** The host of the design that it is, where the cluster was drawn. */
  drawn: string;
  /** What it has of other versions than its cluster, both of each; empty: the same. */
  problem: string;
}

/** A host that was asked for and is no Dask worker yet, or no longer. */
export interface ComingHost {
  name: string;
  /** What it is at, such as `connecting` and `starting Python`; `waiting`, until it is tried again. */
  step: string;
  /** Why it could not be used, in its own last words; it is tried again, unless its step is `ended`. */
  problem: string;
}

/** One figure of one host over time, oldest first, and how it is drawn (`HOST_FIGURES` in `metrics.py`). */
export interface MachineSeries {
  host: string;
  metric: string;
  /** The plot that it shares with other series of the host; empty: one of its own. */
  plot: string;
  /** What it is called there. */
  line: string;
  /** `cores`, `bytes`, `bytes_per_second`, `fraction`, `seconds`, or what stands behind the number. */
  unit: string;
  /** Seconds since the epoch, by the host's clock. */
  time: number[];
  value: number[];
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
  /** Hosts that are on their way, where the kind tells of them. */
  coming: ComingHost[];
  /** By rank; empty until the hosts are there. */
  tasks: TaskSeat[];
  created: number;
  active_runs: number;
  /** What a person should know, such as more tasks than cores. */
  notes: string[];
  /** What is wrong and should be acted on, such as runs that cannot be saved. Each says what can be done. */
  warnings: string[];
  /** Seconds since it last answered, where that is longer than usual; 0 while it answers. */
  silent_s: number;
  /** Why this version of jupyter_dtf cannot talk to it: which protocols both speak, and what to do. Empty: it can. */
  incompatible: string;
}

/** One option of a kind of cluster, as a form shows it. */
export interface FieldInfo {
  name: string;
  title: string;
  /** integer, number, bytes, string, boolean, choice; list: of texts, which forms and terminals part by commas. */
  type: string;
  default: unknown;
  help: string;
  minimum: number | null;
  maximum: number | null;
  choices: string[];
  /** It is the number of the cluster's hosts: where hosts are drawn, as many as those, and nobody is asked. */
  counts_hosts: boolean;
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
  /** What is sent to a batch system for each host; empty where there is none. */
  script: string;
  /** Options that the kind has beside those of `KindInfo`, with what was given so far; such as a gateway's own. */
  fields: FieldInfo[];
}

/** A remembered cluster request. */
export interface Template {
  name: string;
  request: ClusterRequest;
}

/** Versions, so that the browser can tell a stale server from a missing one. */
export interface StatusInfo {
  version: string;
  /** The newest protocol that the server speaks (`schema.protocol`), and the oldest. */
  protocol: number;
  oldest: number;
  dask: string;
  /** The installed version, empty where there is none. */
  tensorflow: string;
  /** What a person should know of this server, such as a store of past runs that cannot be read. */
  notes: string[];
}

/** Where Dask's own dashboard of a cluster is: a path on the Jupyter server, which alone can reach it. */
export interface DashboardInfo {
  url: string;
}

/**
 * A page of what a run's tasks have printed, oldest first. `events` are `log` events as JSON.
 *
 * The next page is asked for with `before_time` of the first, or `after_time` of the last.
 */
export interface OutputPage {
  run: string;
  events: Record<string, unknown>[];
  /** Whether there is more before it. */
  earlier: boolean;
  /** Whether there is more behind it by now. */
  later: boolean;
  /** How many lines the stream has by now; of a page by line numbers. */
  total: number;
}

/** The body of every error answer. */
export interface ErrorInfo {
  message: string;
  /** The name of the error's class. */
  error: string;
  field: string;
}

/** One complete checkpoint. */
export interface CheckpointInfo {
  /** Steps done, of all epochs. */
  step: number;
  /** The epoch to go on with, counting from 0. */
  epoch: number;
  /** Steps of that epoch that are done. */
  step_in_epoch: number;
  /** When its values were taken, in seconds since the epoch. */
  time: number;
  bytes: number;
  /** The value of the metric `best` at the end of its epoch; None where there is none. */
  metric: number | null;
  /** Its directory, on the chief's machine. */
  path: string;
  /** How long it took to write, while the program went on; 0 where that is not known any more. */
  seconds: number;
}

/** The run took a step in its life cycle. */
export interface RunChanged {
  type: 'run';
  time: number;
  state: RunState;
  message: string;
}

/** A task took a step in its life. One of a later attempt begins it anew; one of an earlier attempt is late. */
export interface TaskChanged {
  type: 'task';
  time: number;
  task: string;
  state: TaskState;
  host: string;
  pid: number;
  endpoint: string;
  exit_code: number | null;
  signal: string;
  message: string;
  traceback: string;
  /** As in `TaskInfo`; empty where nothing is said of them. */
  gpus: string[];
  /** How often the task had been started before: 0, and 1 once it was started again. */
  attempt: number;
}

/**
 * Something a person should know: a warning, a check that passed, a failure in words.
 *
 * One about the values of a metric, as that they are not finite from here on, has `metric` and `step`: it is
 * marked on that metric's plot. What else is marked, on every plot, has `mark`.
 */
export interface Note {
  type: 'note';
  time: number;
  level: string;
  title: string;
  text: string;
  task: string;
  metric: string;
  step: number | null;
  /** What it is marked with: `SLOW`, `PRUNED`, or another word or two. */
  mark: string;
  /** What it is about, where somebody wanted to be told of that (`schema/notify.py`): `nan`, `idle`, `end`. */
  alarm: string;
  /** How often the task had been started before: 0, and 1 once it was started again. */
  attempt: number;
}

/** A checkpoint is complete, and those of the steps `removed` are gone for it. */
export interface CheckpointSaved {
  type: 'checkpoint';
  time: number;
  checkpoint: CheckpointInfo;
  task: string;
  removed: number[];
  /** How often the task had been started before: 0, and 1 once it was started again. */
  attempt: number;
}

/**
 * Lines of output of a task. `first` is the number, within the task and stream, of the first line; a later
 * attempt numbers its lines after those before.
 *
 * The stream of events carries no more than a person can read, and keeps the last of it: where `first` is beyond
 * the line after the last, the lines between are in the run's files only. An event without lines is one whose lines
 * are no longer kept.
 */
export interface Logged {
  type: 'log';
  time: number;
  task: string;
  stream: string;
  first: number;
  lines: string[];
  /** Whether the host writes it into the run's files; it cannot where it does not see them. */
  kept: boolean;
  /** How often the task had been started before: 0, and 1 once it was started again. */
  attempt: number;
}

/** How far the run is, by the chief's count. */
export interface Progressed {
  type: 'progress';
  time: number;
  progress: Progress;
  /** How often the task had been started before: 0, and 1 once it was started again. */
  attempt: number;
}

/**
 * An epoch's logs, averaged over the tasks: what Keras's `History` records. `epoch` counts from 0.
 *
 * The first of a later attempt takes the place of that epoch and all after it (`last_epochs`).
 */
export interface EpochEnded {
  type: 'epoch';
  time: number;
  epoch: number;
  step: number;
  logs: Record<string, number | null>;
  /** How often the task had been started before: 0, and 1 once it was started again. */
  attempt: number;
}

/** What the run was submitted with: its first event, if it has one. */
export interface Submitted {
  type: 'submitted';
  time: number;
  /** As far as its source was to be had. */
  code: Source[];
  /** The design that it came from, as the text of a `.dtf` file (`schema/design.py`), where it came from one. */
  design: Source | null;
}

/** What the program of a trial has returned, by objective; NaN for what is no number. */
export interface TrialValued {
  type: 'trial';
  time: number;
  values: Record<string, number | null>;
  /** How often the task had been started before: 0, and 1 once it was started again. */
  attempt: number;
}

/** Somebody asks the program that drives a trial's search to stop it, or to have so many more trials. */
export interface SearchAsked {
  type: 'search_asked';
  time: number;
  stop: boolean;
  more: number;
  /** How often the task had been started before: 0, and 1 once it was started again. */
  attempt: number;
}

/**
 * How many of some values lay where, at a step: `counts` in as many bins of one width from `low` to `high`.
 *
 * Those that are not finite are in no bin. Without a finite one there are no bins, and both limits are 0.
 */
export interface Histogram {
  type: 'histogram';
  time: number;
  task: string;
  name: string;
  step: number;
  low: number;
  high: number;
  counts: number[];
  not_a_number: number;
  infinite: number;
  /** How often the task had been started before: 0, and 1 once it was started again. */
  attempt: number;
}

/**
 * A picture of a step, as PNG of at most `media.MOST_PICTURE_BYTES`. `width` and `height` are in pixels.
 *
 * One without a `png` stands for an event that was not kept on the way: it changes nothing.
 */
export interface Picture {
  type: 'image';
  time: number;
  task: string;
  name: string;
  step: number;
  png: string;
  width: number;
  height: number;
  caption: string;
  /** How often the task had been started before: 0, and 1 once it was started again. */
  attempt: number;
}

/** The histograms, or the pictures, of one name that a task has reported, as far as they are kept. */
export interface MediaSeries {
  kind: string;
  name: string;
  task: string;
  /** Of each, in the order of the steps. */
  steps: number[];
}

/**
 * Send this run's events after sequence number `after` (-1: all), and its series `width` pixels wide.
 *
 * `metrics` are those whose series are wanted; null for all.
 */
export interface Subscribe {
  type: 'subscribe';
  run: string;
  after?: number;
  width?: number;
  x?: string;
  metrics?: string[] | null;
}

/** From now on send the series of these metrics of a subscribed run, each from where it was left. */
export interface Show {
  type: 'show';
  run: string;
  metrics: string[];
}

export interface Unsubscribe {
  type: 'unsubscribe';
  run: string;
}

/**
 * The first message: which protocols the server speaks (`schema.protocol`), and its version.
 *
 * A page says which it speaks when it opens the socket (`?protocol=1&oldest=1`). Where there is none that both
 * speak, the server says no more and closes the socket.
 */
export interface HelloMessage {
  type: 'hello';
  protocol: number;
  oldest: number;
  version: string;
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
  /**
   * The task, where these are points of an attempt whose steps a later one has done again; empty: they led to the
   * model. `task` names the attempt then (`worker:1, attempt 1`): for who does not know this, it is another line.
   */
  replaced: string;
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

/** What goes into the model. It is no layer: it is not placed, and goes to wherever the layers are that take it. */
export interface Input {
  /** The key or the name that its data goes by; where nobody named it, its place in the argument of `call`. */
  name: string;
  /** With a batch of one example, as those of the layers. */
  shape: number[];
  /** Empty where the model does not say. */
  dtype: string;
  /** The ids of the layers that take it, in their order. */
  targets: string[];
}

/** Why `dtf.Pipeline` would not train the model as it was compiled when it was described. */
export interface Refusal {
  /** Of a design: `model`, whatever is drawn; or what makes it so, such as `run.replicas`. */
  field: string;
  message: string;
}

/** The layers in the order in which they are first called, and what travels between them. */
export interface LayerGraph {
  model: string;
  layers: Layer[];
  edges: Edge[];
  inputs: Input[];
  /** What could not be seen. */
  notes: string[];
  refusals: Refusal[];
  /** Whether a pipeline takes one forward, one backward: the loss is compiled, and a sum over examples. */
  takes_turns: boolean;
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
  /** Needed: weights, gradients, slots, and the activations of the microbatches that it holds at once. */
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
  /** Why it has no layer of a placement that is complete: what a step would take with it. */
  unused: string;
  /** Needed if all microbatches went forward before one went back; 0 where they do. */
  filled_bytes: number;
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
  /**
   * What belongs to the picture alone: blocks of the model that are `folded` and `unfolded`, by their ids, where
   * that is otherwise than the designer shows them at first. What else is here is kept as it is.
   */
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

/** What a run's own steps took, those that were not traced; seconds. */
export interface StepTimes {
  count: number;
  /** So many of the first ones are not counted: they build, trace and check. */
  left_out: number;
  median_s: number;
  /** A quarter of the steps took less. */
  low_s: number;
  /** A quarter of the steps took more. */
  high_s: number;
  /** Of the run; 0 where that is not known. */
  batch_size: number;
}

/** Where a run's layers were to be and where they were, and which device was busy when in the last step traced. */
export interface RunPlacement {
  layers: LayerPlace[];
  timeline: Slot[];
  /** Of the step traced, which tracing makes longer. */
  step_seconds: number;
  /** None where the run has not yet taken enough of them. */
  steps: StepTimes | null;
}

export type StoryEvent = RunChanged | TaskChanged | Note | CheckpointSaved;

export type AnyEvent = RunChanged | TaskChanged | Note | CheckpointSaved | Logged | Progressed | EpochEnded | Submitted | TrialValued | SearchAsked;

export type ClientMessage = Subscribe | Show | Unsubscribe;

export type ServerMessage = HelloMessage | ClustersMessage | RunsMessage | EventsMessage | SeriesMessage | SocketError;

/** The jobs in the order in which forms offer them. */
export const USUAL_JOBS: readonly string[] = ['worker', 'ps', 'chief', 'evaluator'];

/** The jobs that train: ranks count them first, in this order. */
export const FIRST_JOBS: readonly string[] = ['chief', 'worker'];

/** Jobs that hold variables or look on: they come last by rank, and get no GPU unless a person gives them one. */
export const CPU_JOBS: readonly string[] = ['ps', 'evaluator'];

export const MAX_TASKS_PER_JOB = 10000;

/** A job's name: what TensorFlow accepts between "/job:" and "/task:". A regular expression, for one whole line. */
export const JOB_NAME = /^[a-zA-Z][a-zA-Z0-9_]*$/;

/** The name of a cluster or a template. A regular expression, for one whole line. */
export const CLUSTER_NAME = /^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$/;

/** The states that a run does not leave. */
export const FINAL_STATES: readonly RunState[] = ['succeeded', 'failed', 'stopped', 'lost'];

export const STORY: readonly string[] = ['run', 'task', 'note', 'checkpoint'];

/** Classes of layers whose columns may be parted among devices. */
export const SPLITTABLE: readonly string[] = ['Dense', 'Embedding'];

export const DESIGN_SUFFIX = '.dtf';

/**
 * Metrics of a task's own processes, and their units: no model's. Its host measures what the processes use; what the
 * task sends to other machines of its run, and how much of each second it spends in exchanges with them, it tells itself.
 */
export const TASK_LOAD: Readonly<Record<string, string>> = {"cpu": "cores", "memory_bytes": "bytes", "network_bytes_per_second": "bytes_per_second", "network_seconds": "seconds"};

/**
 * How metrics begin that a task tells of another one on another machine, whose name follows, and their units: what it
 * sends to it in a step, and how long it takes to be rid of that. A slow link holds up who sends over it.
 */
export const PAIR_LOAD: Readonly<Record<string, string>> = {"bytes_per_step_to_": "bytes", "seconds_per_step_to_": "seconds"};

/** Metrics that say how the training goes rather than how well; shown after the model's own. */
export const SPEED_METRICS: readonly string[] = ['learning_rate', 'examples_per_second', 'step_seconds'];

/** What the name of a metric has in it of which less is better. A regular expression, as `MORE`; this one first. */
export const LESS_IS_BETTER_NAME = /loss|error|entropy|divergence|perplexity|(?:^|_)(?:mse|mae|mape|msle|rmse|nll|wer|cer)(?:_|$)/;

/** The same of those of which more is. */
export const MORE_IS_BETTER_NAME = /accuracy|precision|recall|score|similarity|reward|(?:^|_)(?:acc|auc|f1|iou|dice|bleu|r2|map|psnr|ssim)(?:_|$)/;

/** What the fields are that a text leaves out. Copy before you change one. */
export const DEFAULTS = {
  ClusterRequest: {"name": "", "kind": "local", "jobs": {"worker": 2}, "options": {}, "hosts": [], "tasks": [], "keep": false, "grace_s": 60.0},
  HostDesign: {"cpus": 1, "memory_bytes": 0, "gpus": []},
  TaskPlace: {"device": "CPU", "memory_bytes": 0},
  Layer: {"calls": 1, "input_shapes": [], "output_shapes": [], "parameters": 0, "parameter_bytes": 0, "gradient_bytes": 0, "slot_bytes": 0, "activation_bytes": 0, "flops": 0},
  Input: {"shape": [], "dtype": "", "targets": []},
  Refusal: {},
  LayerGraph: {"inputs": [], "notes": [], "refusals": [], "takes_turns": false},
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
