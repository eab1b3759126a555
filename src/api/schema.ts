// Made from jupyter_dtf/schema by `python -m jupyter_dtf.schema.typescript`. Change the structs there, not this file.

/** What this page speaks, and the oldest that it understands: `jupyter_dtf/schema/protocol.py`. */
export const PROTOCOL = 1;
export const OLDEST = 1;

/** The states of a run. `RunState.step` defines the transitions. */
export type RunState = 'pending' | 'launching' | 'running' | 'restarting' | 'pausing' | 'paused' | 'stopping' | 'succeeded' | 'failed' | 'stopped' | 'lost';

/** The states of a task's process. */
export type TaskState = 'pending' | 'starting' | 'running' | 'serving' | 'finished' | 'succeeded' | 'failed' | 'stopped' | 'lost';

/** The state of a cluster as a viewer sees it. */
export type ClusterState = 'starting' | 'running' | 'stopping' | 'stopped' | 'failed' | 'lost';

/** The progress of a run: `done` of `total` (0 if unknown) units. */
export interface Progress {
  done: number;
  total: number;
  unit: string;
  /** The current epoch, counted from 1; 0 if the program has no epochs. */
  epoch: number;
  epochs: number;
}

/** The newest profile of a run that was requested while it was running. */
export interface RunProfile {
  /** The number of the profile in the run, counted from 1. */
  number: number;
  steps: number;
  done: boolean;
  /** Why there is no trace, if it has ended without one. */
  message: string;
}

/** One task of a run. `task` is its short name, `worker:1`. */
export interface TaskInfo {
  task: string;
  state: TaskState;
  /** How often it was restarted. */
  attempt: number;
  /** The name of the Dask worker it runs on. */
  host: string;
  pid: number;
  /** `host:port`, reserved for its TensorFlow server while the run lasts. */
  endpoint: string;
  /** Its GPUs, as CUDA_VISIBLE_DEVICES names them: numbers on its machine, or UUIDs. */
  gpus: string[];
  exit_code: number | null;
  /** The name of the signal that ended it (`SIGKILL`), if one did. */
  signal: string;
  /** The last line of the traceback, or why the task was ended. */
  message: string;
  traceback: string;
}

/** The best value of a metric, and when it was reached. */
export interface Best {
  value: number;
  step: number;
  /** Counted from 1; 0 if there are no epochs. */
  epoch: number;
}

/** A piece of code that a run was submitted with. */
export interface Source {
  /** The path of its file, `cell` for one of a notebook, or the name of a function. */
  name: string;
  text: string;
}

/** What is known about a run besides its request. Small, because lists of runs contain it; code is an event. */
export interface Origin {
  /** The model's name; empty for a program without a known model. */
  model: string;
  /** The number of the model's parameters. None: it had not been built, or the tasks create it. */
  weights: number | null;
  /** The form of the training data: `arrays`, `tf.data.Dataset`, `function`. */
  data: string;
  /** By names as people write them: `TensorFlow`, `Keras`, `jupyter_dtf`, `Python`. */
  versions: Record<string, string>;
  /** The working directory. */
  directory: string;
  /** The commit checked out in the Git repository of the working directory; empty if it is in none. */
  commit: string;
  /** Its branch; empty if none is checked out. */
  branch: string;
}

/** What users set on a run, as it is stored. */
export interface RunMarks {
  /** The new name of the run; empty: as submitted. */
  name: string;
  tags: string[];
  note: string;
  /** Whether lists omit it unless requested. */
  archived: boolean;
  /** When it was deleted, in seconds since the epoch: it is in no list, and can be restored for a while. */
  deleted: number | null;
}

/** A change of the marks of a run. Null leaves a field unchanged; an empty `name` restores the original one. */
export interface RunPatch {
  name?: string | null;
  tags?: string[] | null;
  note?: string | null;
  archived?: boolean | null;
  deleted?: boolean | null;
}

/** A notification about a run. */
export interface Alarm {
  /** `nan`, `no improvement`, `idle`, `memory` or `end`. */
  about: string;
  title: string;
  text: string;
  task: string;
  /** When it was noticed, in seconds since the epoch. */
  time: number;
}

/** Which trial of which search a run is. Its parameters are the run's; its values are reported at its end. */
export interface TrialInfo {
  /** The search's id, the same for all its trials, including those of processes that continue it. */
  search: string;
  /** The name of the search. */
  name: string;
  /** Counted from 0. */
  number: number;
  /** The objectives, most important first, each with `minimize` or `maximize`. Empty: trials are not ranked. */
  objectives: Record<string, string>;
  /** The names of the searched parameters, in the order of the space. */
  parameters: string[];
  /** Those that are sampled from a logarithmic range. */
  logarithmic: string[];
  /** Those whose values are not plain data, so that the run's parameters contain their `repr`. */
  in_words: string[];
  /** The number of trials of the search; 0 if it is not limited. */
  most: number;
  /** Whether more trials can be requested while it runs. */
  may_grow: boolean;
  /** The number of trials beyond `most` that were requested while this one ran. */
  asked_more: number;
  /** Whether the end of the search was requested while this one ran. */
  asked_stop: boolean;
}

/** A request to the program that drives a search: to `stop` it, or to run this many `more` trials. */
export interface SearchRequest {
  stop?: boolean;
  more?: number;
}

/**
 * A run's summary: its descriptor with its events applied, up to `next_seq`, without output and points.
 *
 * Only `backend/records/apply_event.py` and `run_record.py` create it. Copies that are stored or sent are caches:
 * of two summaries, the one with the higher `next_seq` is more recent.
 */
export interface RunInfo {
  id: string;
  name: string;
  cluster: string;
  /** `fit`, `predict`, `evaluate`, `program`, `script`, `servers`, `profile` or `trial`. */
  kind: string;
  strategy: string;
  jobs: Record<string, number>;
  /** Seconds since 1970, like all times. */
  created: number;
  /** The user's settings, shown in the dashboard: batch size, epochs, optimizer. */
  parameters: Record<string, unknown>;
  run_dir: string;
  /** Whether it writes checkpoints from which it, or another run, can continue. */
  goes_on: boolean;
  /** The id of the run from whose checkpoint it continues; empty if there is none, or it is unknown. */
  resumed_from: string;
  /** Its provenance; empty for runs from before this was recorded. */
  origin: Origin;
  /** Which trial of which search it is; None if it is not a trial. */
  trial: TrialInfo | null;
  /**
   * The identity of its cluster, since another one may have the same name later. Empty in runs from before this was
   * recorded.
   */
  cluster_id: string;
  state: RunState;
  /** One line: why it is waiting, or why it failed. */
  message: string;
  started: number | null;
  ended: number | null;
  /** The tasks; empty until they have been placed on hosts. */
  tasks: TaskInfo[];
  progress: Progress;
  /** The latest value of each metric, averaged over the tasks that report it. */
  latest: Record<string, number | null>;
  /**
   * The part of `latest` that lists show, most important first: a trial's objective, otherwise its loss, or the
   * first metric that its program reports; never a machine metric. For a run that has ended, the last epoch's values.
   */
  headline: Record<string, number | null>;
  /** Metrics that became non-finite, with a sentence for each: `loss became NaN at step 8 on worker:1`. */
  not_finite: Record<string, string>;
  /**
   * The best value so far of each metric in `headline` whose direction is known: over epochs, or over points if the
   * program has no epochs. It is complete only if points were applied, and in a run's record.
   */
  best: Record<string, Best>;
  /** The tasks that the others currently wait for in every step, with a sentence on each. */
  slow: Record<string, string>;
  /** The newest `MOST_KEPT` notifications, oldest first. */
  alarms: Alarm[];
  /** The latest checkpoint; None if there is none yet. */
  checkpoint: CheckpointInfo | null;
  /** The newest profile that was requested; None if none was. */
  profile: RunProfile | null;
  /** At most 60 values of a trial's objective, or of the loss (or the first metric in `headline`), oldest first. */
  sparkline: number[];
  /** The steps of the first and the last of them; empty if there are none. */
  sparkline_steps: number[];
  /** The values that a trial's program returned for its objectives. If it returned none, `latest` is used. */
  values: Record<string, number | null>;
  /** Whether a trial was ended because it was not promising. */
  pruned: boolean;
  /** The user's name, tags and note, which are not events: the hub of each viewer adds them. */
  marks: RunMarks;
  /** The sequence number of the first event that has not been applied. */
  next_seq: number;
  /**
   * The same for what is derived from points: `latest`, `headline` and the sparkline. 0 if points were not
   * decoded; the controller passes them on as bytes.
   */
  points_seq: number;
}

/** A host in a design, with its devices. */
export interface HostDesign {
  name: string;
  cpus: number;
  /** 0: unknown. */
  memory_bytes: number;
  /** The memory of each GPU in bytes, 0 if unknown; `GPU:0` first. */
  gpus: number[];
}

/** A task placed on a device of a host. Tasks without a place run where there is room. */
export interface TaskPlace {
  job: string;
  index: number;
  host: string;
  /** `CPU`, or `GPU:1`: the host's second GPU. */
  device: string;
  /** The most device memory it may allocate, in bytes; 0: all. */
  memory_bytes: number;
}

/** A request to start a cluster. `options` are those of its kind (`KindInfo.fields`). */
export interface ClusterRequest {
  /** Empty: choose an unused name. */
  name?: string;
  kind?: string;
  jobs?: Record<string, number>;
  options?: Record<string, unknown>;
  /** The hosts in the design, which have to exist; empty: the hosts that the kind provides. */
  hosts?: HostDesign[];
  /** Tasks with an assigned host; the others run where there is room. */
  tasks?: TaskPlace[];
  /** Keep running until stopped, with or without clients. */
  keep?: boolean;
  /** Without `keep`: end so many seconds after the last client has disconnected, but never during a run. */
  grace_s?: number;
}

/** A change to a running cluster: new counts of tasks per job. */
export interface ClusterPatch {
  jobs: Record<string, number>;
}

/** On which cluster to resume a run, and from which of its checkpoints. */
export interface ResumeRequest {
  /** Empty: the cluster that it ran on. */
  cluster?: string;
  /** None: the newest. */
  step?: number | null;
}

/** The number of next steps of a running run to trace. */
export interface RunProfileRequest {
  steps?: number;
}

/** The folder to copy an example to, as a path of the server's contents manager. */
export interface ExampleRequest {
  folder: string;
}

/** The copy of an example, under a name that was free. */
export interface ExampleCopy {
  path: string;
}

export interface GpuInfo {
  /** Its name in CUDA_VISIBLE_DEVICES: the UUID. */
  id: string;
  index: number;
  name: string;
  memory_bytes: number;
  memory_used_bytes: number;
  /** 0 to 1. */
  utilization: number;
  /** Like all fields below, None if the GPU or its driver does not report it. */
  power_watts: number | null;
  temperature_celsius: number | null;
  pcie_received_bytes_per_second: number | null;
  pcie_sent_bytes_per_second: number | null;
  /** The total of its NVLinks. */
  nvlink_received_bytes_per_second: number | null;
  nvlink_sent_bytes_per_second: number | null;
}

/** One Dask worker: the host that tasks run on. */
export interface HostInfo {
  name: string;
  address: string;
  machine: string;
  threads: number;
  /** The Dask worker's memory limit, or the machine's memory if there is none. */
  memory_bytes: number;
  /** Cores in use by the host and its tasks. */
  cpu: number;
  memory_used_bytes: number;
  /** The GPUs that the Dask worker may use, in the order in which it uses them. */
  gpus: GpuInfo[];
  /** Whether TensorFlow is imported, so that tasks start immediately. */
  warm: boolean;
  /** Why the ports of TensorFlow's servers cannot be closed to other users on this machine; empty: they are closed. */
  unguarded: string;
  /** Its share of the tasks, relative to other hosts; 0: as many as any other. */
  slots: number;
  /** The host of the design that it was matched with, if any. */
  drawn: string;
  /** The versions that differ from those of its cluster, with both; empty: none. */
  problem: string;
}

/** A host that was requested but is not a Dask worker yet, or no longer. */
export interface ComingHost {
  name: string;
  /** The current step, such as `connecting` and `starting Python`; `waiting` until the next attempt. */
  step: string;
  /** Why it could not be used, from its last output; it is retried, unless its step is `ended`. */
  problem: string;
}

/** One figure of one host over time, oldest first, and how to draw it (`HOST_FIGURES` in `metrics.py`). */
export interface MachineSeries {
  host: string;
  metric: string;
  /** The plot that it shares with other series of the host; empty: its own plot. */
  plot: string;
  /** The name of its line there. */
  line: string;
  /** `cores`, `bytes`, `bytes_per_second`, `fraction`, `seconds`, or the text after the number. */
  unit: string;
  /** Seconds since the epoch, by the host's clock. */
  time: number[];
  value: number[];
}

/** The place of a task of a cluster's jobs, in a run with default settings. */
export interface TaskLocation {
  /** `worker:1`. */
  task: string;
  host: string;
  /** The indices of the host's GPUs that are its `GPU:0` and so on; empty: it computes on the CPU. */
  gpus: number[];
  /** Its memory limit on each of its GPUs; 0: none. */
  memory_bytes: number;
}

export interface ClusterInfo {
  name: string;
  kind: string;
  state: ClusterState;
  message: string;
  jobs: Record<string, number>;
  hosts: HostInfo[];
  /** Hosts that are starting, if the kind reports them. */
  coming: ComingHost[];
  /** In order of rank; empty until the hosts are present. */
  tasks: TaskLocation[];
  created: number;
  active_runs: number;
  /** Notes for the user, such as more tasks than cores. */
  notes: string[];
  /** Problems that need action, such as runs that cannot be saved. Each says what to do. */
  warnings: string[];
  /** Seconds since it last responded, if that is longer than usual; 0 while it responds. */
  silent_s: number;
  /** Why this version of jupyter_dtf cannot talk to it: which protocols both speak, and what to do. Empty: it can. */
  incompatible: string;
}

/** One option of a kind of cluster, as a form shows it. */
export interface FieldInfo {
  name: string;
  title: string;
  /** integer, number, bytes, string, boolean, choice; list: of strings, separated by commas in forms and terminals. */
  type: string;
  default: unknown;
  help: string;
  minimum: number | null;
  maximum: number | null;
  choices: string[];
  /** Whether it is the number of the cluster's hosts, which a design with hosts determines. */
  counts_hosts: boolean;
}

/** A kind of cluster. `missing` says what it needs if it is not available. */
export interface KindInfo {
  kind: string;
  title: string;
  available: boolean;
  missing: string;
  fields: FieldInfo[];
}

/** A problem of one field of a request. */
export interface Problem {
  field: string;
  message: string;
  level: string;
}

/** The cluster that a ClusterRequest would start. Ports are 0: each run chooses its own. */
export interface Preview {
  cluster_spec: Record<string, string[]>;
  /** TF_CONFIG as JSON text for each task, `worker:0` first; of the first hundred. */
  tf_config: Record<string, string>;
  problems: Problem[];
  /** The hosts that it would have, as far as they are known beforehand. */
  hosts: HostDesign[];
  /** The script submitted to a batch system for each host; empty if there is none. */
  script: string;
  /** Options of the kind in addition to those of `KindInfo`, given the values so far; such as a gateway's own. */
  fields: FieldInfo[];
}

/** A saved cluster request. */
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
  /** The installed version; empty if there is none. */
  tensorflow: string;
  /** Notes about this server for the user, such as a store of past runs that cannot be read. */
  notes: string[];
}

/** Where Dask's own dashboard of a cluster is: a path on the Jupyter server, which alone can reach it. */
export interface DashboardInfo {
  url: string;
}

/**
 * A page of the output of a run's tasks, oldest first. `events` are `log` events as JSON.
 *
 * The next page is requested with `before_time` of the first, or `after_time` of the last.
 */
export interface OutputPage {
  run: string;
  events: Record<string, unknown>[];
  /** Whether there is earlier output. */
  earlier: boolean;
  /** Whether there is later output by now. */
  later: boolean;
  /** The number of lines of the stream so far, in a page by line numbers. */
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
  /** Completed steps, over all epochs. */
  step: number;
  /** The epoch to continue with, counted from 0. */
  epoch: number;
  /** Completed steps of that epoch. */
  step_in_epoch: number;
  /** When its values were captured, in seconds since 1970. */
  time: number;
  bytes: number;
  /** The value of the metric `best` at the end of its epoch; None if there is none. */
  metric: number | null;
  /** Its directory, on the chief's machine. */
  path: string;
  /** How long it took to write while the program continued, in seconds; 0 if unknown. */
  seconds: number;
}

/** The run changed its state. */
export interface RunChanged {
  type: 'run';
  time: number;
  state: RunState;
  message: string;
}

/** A task changed its state. An event of a later attempt starts over; one of an earlier attempt is outdated. */
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
  /** As in `TaskInfo`; empty if not stated. */
  gpus: string[];
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/**
 * Information for the user: a warning, a passed check, the description of a failure.
 *
 * A note about the values of a metric, such as the first that is not finite, has `metric` and `step` and is
 * marked on that metric's plot. Other notes with a `mark` are marked on every plot.
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
  /** The text of the mark: `SLOW`, `PRUNED`, or another word or two. */
  mark: string;
  /** The condition, if the user requested to be notified of it (`schema/notify.py`): `nan`, `idle`, `end`. */
  alarm: string;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** A checkpoint is complete, and those of the steps `removed` were deleted. */
export interface CheckpointSaved {
  type: 'checkpoint';
  time: number;
  checkpoint: CheckpointInfo;
  task: string;
  removed: number[];
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/**
 * Lines of output of a task. `first` is the number, within the task and stream, of the first line; a later
 * attempt numbers its lines after those before.
 *
 * The stream of events carries no more output than a user can read, and keeps only the last of it: if `first`
 * skips lines, those are in the run's files only. The lines of an event without lines are no longer kept.
 */
export interface Logged {
  type: 'log';
  time: number;
  task: string;
  stream: string;
  first: number;
  lines: string[];
  /** Whether the host writes it to the run's files, which it must have access to. */
  kept: boolean;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** The progress of the run, as counted by the chief. */
export interface Progressed {
  type: 'progress';
  time: number;
  progress: Progress;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/**
 * An epoch's logs, averaged over the tasks: what Keras's `History` records. `epoch` counts from 0.
 *
 * The first one of a later attempt replaces that epoch and all after it (`last_epochs`).
 */
export interface EpochEnded {
  type: 'epoch';
  time: number;
  epoch: number;
  step: number;
  logs: Record<string, number | null>;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** What the run was submitted with: its first event, if it has one. */
export interface Submitted {
  type: 'submitted';
  time: number;
  /** The sources that could be found. */
  code: Source[];
  /** The design that it came from, if any, as the text of a `.dtf` file (`schema/design.py`). */
  design: Source | null;
}

/** The values returned by the program of a trial, by objective; NaN for values that are not numbers. */
export interface TrialValued {
  type: 'trial';
  time: number;
  values: Record<string, number | null>;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** A request to the program that drives a trial's search: to stop it, or to run this many more trials. */
export interface SearchAsked {
  type: 'search_asked';
  time: number;
  stop: boolean;
  more: number;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** The progress of a task with a requested profile. */
export interface TracedSteps {
  type: 'traced';
  time: number;
  task: string;
  /** The number of the profile in the run. */
  profile: number;
  /** `waits` for a step, has `begun` with it, has `left` its trace, or has `failed`. */
  stage: string;
  /** Whether it has reported the beginning of a step before. */
  has_steps: boolean;
  first: number;
  /** The steps of the trace that it has left. */
  last: number;
  /** Why it failed. */
  message: string;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** A profile of a run was requested, or has ended. */
export interface Profiled {
  type: 'profile';
  time: number;
  number: number;
  steps: number;
  done: boolean;
  /** Why there is no trace, if it has ended. */
  message: string;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/**
 * A histogram of values at a step: `counts` in bins of equal width from `low` to `high`.
 *
 * Values that are not finite are in no bin. Without finite values there are no bins, and both limits are 0.
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
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/**
 * A picture of a step, as PNG of at most `media.MOST_PICTURE_BYTES`. `width` and `height` are in pixels.
 *
 * One without a `png` replaces an event that was dropped, and is ignored.
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
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** A text of a step, of at most `media.MOST_TEXT_BYTES` as UTF-8. */
export interface ReportedText {
  type: 'text';
  time: number;
  task: string;
  name: string;
  step: number;
  text: string;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** A table of a step. Every row has a cell for each of `columns`; numbers are finite. */
export interface ReportedTable {
  type: 'table';
  time: number;
  task: string;
  name: string;
  step: number;
  columns: string[];
  rows: ((string | number | boolean | null)[])[];
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** The histograms, pictures, texts or tables of one name that a task has reported, as far as they are kept. */
export interface MediaSeries {
  kind: string;
  name: string;
  task: string;
  /** The step of each, in ascending order. */
  steps: number[];
}

/**
 * Send this run's events after sequence number `after` (-1: all), and its series `width` pixels wide.
 *
 * `metrics`: those whose series to send; null: all.
 */
export interface Subscribe {
  type: 'subscribe';
  run: string;
  after?: number;
  width?: number;
  x?: string;
  metrics?: string[] | null;
}

/** From now on, send the series of these metrics of a subscribed run, each from where it stopped. */
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
 * A page states its protocols when it opens the socket (`?protocol=1&oldest=1`). If none is common to both, the
 * server sends nothing else and closes the socket.
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

/** Runs that are new or have changed. The first message after connecting (`all`) contains all runs. */
export interface RunsMessage {
  type: 'runs';
  runs: RunInfo[];
  all: boolean;
  removed: string[];
}

/**
 * Events of a subscribed run except points; resume after `next_seq` - 1.
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
  /** `worker:1`; empty for the mean over the tasks by step, which exists if more than one task reports. */
  task: string;
  start: number;
  x: (number | null)[];
  y: (number | null)[];
  /**
   * The task, if these points of an attempt were replaced by a later one; empty if they led to the model. `task`
   * then includes the attempt (`worker:1, attempt 1`), so that readers unaware of this draw another line.
   */
  replaced: string;
}

/** What changed in the decimated series of a subscribed run. */
export interface SeriesMessage {
  type: 'series';
  run: string;
  frames: SeriesFrame[];
}

/** A message that could not be handled. */
export interface SocketError {
  type: 'error';
  message: string;
  run: string;
}

/** One execution of one operation. */
export interface TracedOp {
  step: number;
  /** The name of its node in the graph; for an eager operation its type. */
  op: string;
  /** The type that was executed: TensorFlow's optimizer may have replaced the original one (`_FusedMatMul`). */
  op_type: string;
  /** `/job:worker/task:1/device:CPU:0`; ends with the task if the device is unknown. */
  device: string;
  /** Microseconds since the trace's `origin_us`. */
  start_us: number;
  duration_us: number;
}

/** A tensor that was sent from one task to another. */
export interface Transfer {
  step: number;
  /** The name of the operation that produced it. */
  tensor: string;
  /** The device that sent it. */
  source: string;
  target: string;
  bytes: number;
  /** When the receiver had requested it and the sender had it ready. */
  start_us: number;
  duration_us: number;
}

/** A trace, ordered by start times. */
export interface TraceData {
  /** Microseconds since 1970; all times in the trace are relative to this. */
  origin_us: number;
  ops: TracedOp[];
  transfers: Transfer[];
  /** A sentence for each operation that did not run where the program placed it, or was replaced. */
  warnings: string[];
  /** The number of operations (the shortest ones) that are left out. */
  left_out: number;
  /** The number of the profile in the run, counted from 1; 0: the steps of `trace_steps`. */
  profile: number;
}

/** One layer that computes something itself. A layer that is called several times is one node. */
export interface Layer {
  /** Its path in the model, `encoder/dense_1`: the containers it is in, and its name. */
  id: string;
  /** Its class, `Dense`. */
  kind: string;
  calls: number;
  /** The shapes of its inputs in the first call, with a batch of one example. */
  input_shapes: number[][];
  output_shapes: number[][];
  /** The number of elements of its weights, trainable or not. */
  parameters: number;
  parameter_bytes: number;
  gradient_bytes: number;
  /** Bytes of the optimizer's slots for its weights. */
  slot_bytes: number;
  /** Bytes of the outputs of its operations in a forward pass, which the backward pass may need. */
  activation_bytes: number;
  /** Floating-point operations of a forward pass: a multiplication and an addition are two. */
  flops: number;
}

/** An output of a layer that another one needs. */
export interface Edge {
  source: string;
  target: string;
  /** Bytes in a forward pass; the backward pass sends as many in reverse. */
  bytes: number;
}

/** An input of the model. It is not a layer and not placed, but sent to the devices of the layers that use it. */
export interface Input {
  /** The key or name of its data; without one, its position in the argument of `call`. */
  name: string;
  /** With a batch of one example, as for layers. */
  shape: number[];
  /** Empty if the model does not say. */
  dtype: string;
  /** The ids of the layers that use it, in order. */
  targets: string[];
}

/** Why `dtf.Pipeline` would not train the model as it was compiled when it was described. */
export interface Refusal {
  /** The field of a design: `model` if it holds for any design, or else the cause, such as `run.replicas`. */
  field: string;
  message: string;
}

/** The layers in the order in which they are first called, and the edges between them. */
export interface LayerGraph {
  model: string;
  layers: Layer[];
  edges: Edge[];
  inputs: Input[];
  /** What could not be determined. */
  notes: string[];
  refusals: Refusal[];
  /** Whether a pipeline of it alternates forward and backward passes (`schedule="1f1b"`). */
  takes_turns: boolean;
}

/**
 * The devices on which the layers of a model run.
 *
 * Each layer is either in `devices` or in `splits`.
 */
export interface Placement {
  /** The device of each layer, `/job:worker/task:1/device:CPU:0`. */
  devices: Record<string, string>;
  /** Layers whose columns are split: the devices that each hold a part, in the order of the columns. */
  splits: Record<string, string[]>;
  /** Layers whose device was chosen by the user. Automatic placement does not move them. */
  pinned: string[];
}

/** A device on which layers can be placed. */
export interface Device {
  /** `/job:worker/task:1/device:CPU:0`. */
  name: string;
  flops_per_s: number;
  /** 0: unlimited. */
  memory_bytes: number;
}

/** The bandwidth and latency between two devices. */
export interface Link {
  bytes_per_s: number;
  latency_s: number;
}

/** Measurements from a short run on the real devices. */
export interface Calibration {
  /** The number of examples in the microbatch that was measured. */
  batch_size: number;
  devices: Device[];
  link: Link;
  /** On a device as fast as the first, seconds of the forward and backward pass of a microbatch, and of the update. */
  layer_seconds: Record<string, number[]>;
  /** Seconds that each step takes in addition to layers and transfers. */
  overhead_s: number;
}

/** The work of one device in a step, and the memory that it needs. */
export interface DeviceLoad {
  device: string;
  /** The memory needed for weights, gradients, optimizer slots, and the activations held at one time. */
  memory_bytes: number;
  /** The memory available; 0 if unknown. */
  memory_limit_bytes: number;
  /** The share of a step's work, from 0 to 1. */
  share: number;
  /** Seconds per step in which it is busy. */
  busy_s: number;
  /** Bytes sent per step. */
  sent_bytes: number;
  received_bytes: number;
  layers: number;
  /** Why the layers do not fit, with the sizes; empty if they do. */
  problem: string;
  /** Why a complete placement gives it no layer: how long a step would take with it. */
  unused: string;
  /** The memory needed if all microbatches went forward before one went backward; 0 if they do. */
  filled_bytes: number;
}

/** An edge of the graph that goes from one device to another. */
export interface Cut {
  source: string;
  target: string;
  source_device: string;
  target_device: string;
  /** Bytes in the forward pass of one microbatch. */
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

/** The predicted cost of a step. */
export interface Prediction {
  step_seconds: number;
  /** The fraction of the step, from 0 to 1, during which the devices wait for each other. */
  bubble: number;
  batch_size: number;
  microbatches: number;
  /** Whether it is based on measurements of the real devices; otherwise times are only relative. */
  calibrated: boolean;
  devices: DeviceLoad[];
  cuts: Cut[];
  timeline: Slot[];
  problems: Problem[];
}

/** The cluster of a design. */
export interface ClusterDesign {
  /** Empty: choose an unused name. */
  name: string;
  kind: string;
  jobs: Record<string, number>;
  /** The options of its kind. */
  options: Record<string, unknown>;
  /** Empty: the hosts that the kind provides by itself. */
  hosts: HostDesign[];
  tasks: TaskPlace[];
}

/** Where the model came from, so that it can be read again. */
export interface ModelSource {
  kind: string;
  /** The path of the file, or of the notebook whose kernel has the variable, relative to the server's folder. */
  path: string;
  variable: string;
}

/** A model as its layers. */
export interface ModelDesign {
  graph: LayerGraph;
  source: ModelSource;
}

/** How to train the model. */
export interface RunSettings {
  /** Examples per step, over all microbatches and replicas. */
  batch_size: number;
  microbatches: number;
  replicas: number;
  epochs: number;
}

/** A design: the content of a `.dtf` document. */
export interface Design {
  version: number;
  cluster: ClusterDesign;
  model: ModelDesign | null;
  placement: Placement;
  run: RunSettings;
  calibration: Calibration | null;
  /**
   * State of the designer's view only: the ids of blocks of the model that are `folded` and `unfolded`, if not as
   * by default. Other keys are kept unchanged.
   */
  drawing: Record<string, unknown>;
}

/** A problem with a design: with one of its fields, or with text that could not be parsed. */
export interface DesignProblem {
  field: string;
  message: string;
  level: string;
  /** Counted from 1, like `column`; 0 if the problem is with a field. */
  line: number;
  column: number;
}

/** What a design would create, and its problems. Ports are 0, because each run chooses its own. */
export interface DesignReport {
  cluster_spec: Record<string, string[]>;
  /** TF_CONFIG as JSON text for each task, `worker:0` first; of the first hundred. */
  tf_config: Record<string, string>;
  /** The device that each task computes on, `/job:worker/task:1/device:GPU:0`. */
  devices: Record<string, string>;
  problems: DesignProblem[];
  prediction: Prediction | null;
  /** The design in the current format, if the text that was sent is in an older one. */
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

/** A layer of a run: where it was placed, and where its operations ran. */
export interface LayerPlace {
  layer: string;
  planned: string[];
  actual: string[];
}

/** The durations of a run's steps that were not traced, in seconds. */
export interface StepTimes {
  count: number;
  /** The number of first steps that are not counted, because they build, trace and check. */
  left_out: number;
  median_s: number;
  /** A quarter of the steps took less. */
  low_s: number;
  /** A quarter of the steps took more. */
  high_s: number;
  /** The batch size of the run; 0 if unknown. */
  batch_size: number;
}

/** Where a run's layers were placed and where they ran, and when each device was busy in the last traced step. */
export interface RunPlacement {
  layers: LayerPlace[];
  timeline: Slot[];
  /** Seconds of the traced step, which tracing slows down. */
  step_seconds: number;
  /** None if the run has not made enough steps yet. */
  steps: StepTimes | null;
}

/** The figures of a device, from its maker's data sheet. */
export interface DeviceFigures {
  name: string;
  title: string;
  /** The peak by precision, without sparsity; `fp32`, `tf32`, `bf16`, `fp16`. */
  flops_per_s: Record<string, number | null>;
  memory_bytes: number;
  memory_bytes_per_s: number;
  /** The fraction of its peak that training reaches without tuning. */
  utilisation: number;
  source: string;
}

/** The figures of a kind of network, in one direction. */
export interface NetworkFigures {
  name: string;
  title: string;
  /** The nominal rate. */
  bytes_per_s: number;
  /** The fraction of that which collectives reach, by transport: `tcp`, `rdma`; or `local`, within a machine. */
  efficiency: Record<string, number | null>;
  /** The latency of a small message, by transport. */
  latency_s: Record<string, number | null>;
  /** Whether it is within a machine. */
  is_local: boolean;
  source: string;
}

/** The devices and networks that a forecast knows by name. */
export interface Hardware {
  devices: DeviceFigures[];
  networks: NetworkFigures[];
}

/** What to forecast. Empty and 0: from the design, its calibration, or the defaults. */
export interface ForecastSettings {
  /** `allreduce`, `ps`, `mirrored` (in-graph) or `pipeline`. */
  strategy: string;
  /**
   * The numbers of computing tasks; empty: 1, 2, 4, ..., 512. `ps` tasks are additional. For a pipeline: all of
   * its stages and replicas.
   */
  tasks: number[];
  /** Examples in a step over all tasks, the same for every number of tasks (strong scaling). */
  batch_size: number;
  /** Examples in a step of each task (weak scaling). If both are 0, as many as each task has in the design. */
  per_device: number;
  /**
   * For all-reduce: `ring`, `hierarchical` (a ring between machines, each of which reduces first), `tree`, or
   * `auto`, as `dtf.AllReduce` would choose.
   */
  algorithm: string;
  /** For gradients that are sent: `none`, `fp16`, `bf16`. */
  compression: string;
  /** For `ps`: whether all workers wait for the slowest in each step; off by default, as in the strategy. */
  sync: boolean;
  /** The number of `ps` tasks, which share the variables. */
  servers: number;
  /** For `ps` with `sync`: this many of the last gradients of each step are not waited for. */
  backup_workers: number;
  /** For a pipeline. 0: the design's. */
  microbatches: number;
  /** For a pipeline: the devices of one copy of the model. 0: the design's, or 2. */
  stages: number;
  /** For a pipeline: the copies of the model. 0: as many as there are tasks for; 1: all tasks are stages of one. */
  replicas: number;
  /**
   * A device of `GET /hardware`, such as `A100`. Empty: as the calibration measured, or else
   * with the speed that the designer assumes.
   */
  device: string;
  precision: string;
  /** The fraction of the device's peak that a step reaches, from 0 to 1. 0: the table's. */
  utilisation: number;
  /**
   * Between machines: a network of `GET /hardware`, such as `25gbit`. Empty: `link`, the calibration's, or
   * 10 Gbit/s.
   */
  network: string;
  /** Over that network: `tcp` or `rdma`. */
  transport: string;
  /** Between the devices of one machine: a network of `GET /hardware`. Empty: `pcie3`, or `memory` for CPUs. */
  local: string;
  /** Measured between machines, as by `jupyter dtf doctor --network`. Takes precedence over `network`. */
  link: Link | null;
  /** 0: the most that a host of the design has, or 1. */
  devices_per_machine: number;
  /** The throughput of the input pipeline of each task; 0: it never delays a step. */
  input_examples_per_s: number;
  /**
   * The variation of the steps of a task: the standard deviation of their time over its mean. 0: as measured, or a
   * typical value.
   */
  straggling: number;
  /** More tasks are worthwhile as long as they add at least this fraction of perfect scaling. */
  threshold: number;
}

/** A design with a model, and the settings of one or several forecasts to compare. */
export interface ForecastRequest {
  design: Design;
  settings: ForecastSettings[];
}

/** The parts of a step of one task, in seconds. All except `hidden_s` add up to the step. */
export interface StepParts {
  /** Waiting for the next batch. */
  input_s: number;
  /** Forward and backward pass. */
  compute_s: number;
  /** Communication during the backward pass, which costs nothing. */
  hidden_s: number;
  /** Communication while nothing is computed. */
  exposed_s: number;
  /** The optimizer. */
  update_s: number;
  /** Waiting for other tasks: the slowest of a step, other stages of a pipeline, a busy parameter server. */
  idle_s: number;
}

/** The forecast for one number of tasks. */
export interface ForecastPoint {
  /** The tasks that compute. */
  tasks: number;
  /** Additional `ps` tasks. */
  servers: number;
  /** The machines of the computing tasks. */
  machines: number;
  /** Examples in a step of all tasks; in asynchronous training, in one step of each. */
  batch_size: number;
  step_seconds: number;
  parts: StepParts;
  examples_per_second: number;
  /** Examples per second if compute and network are slower than assumed. */
  low: number;
  /** The same if they are faster. */
  high: number;
  /** Examples per second if every task were as fast as a single one. */
  linear: number;
  /** `examples_per_second` over `linear`. */
  efficiency: number;
  /** What each additional task adds since the previous point, as a fraction of a single task. */
  marginal: number;
  /** Updates of the variables per second. */
  updates_per_second: number;
  /** The mean number of updates by others between a worker fetching the variables and its gradient being applied. */
  staleness: number;
  /** The fraction of the gradients that arrive too late (backup workers). */
  dropped: number;
  /** Bytes sent by each task in a step. */
  sent_bytes: number;
  /** The memory needed by the device that needs the most. */
  memory_bytes: number;
  /** The memory of a device; 0 if unknown. */
  memory_limit_bytes: number;
  /**
   * The main cause of lost time: `exchange`, `input`, `waiting`, `servers`, `update`; empty if little is
   * lost.
   */
  limit: string;
  /** Why it would not work: memory, more tasks than examples. */
  problem: string;
}

/**
 * Examples per second by the number of tasks, with the parts of a step and their uncertainty.
 *
 * `show()` prints all of it, `frame()` is a DataFrame with a row for each number of tasks.
 */
export interface Forecast {
  model: string;
  /** The requested settings, with all defaults filled in. */
  settings: ForecastSettings;
  /** The strategy in words: `all-reduce, ring, 25 Gbit/s Ethernet (TCP)`. */
  title: string;
  /** The source of the compute time: `calibration`, `published`, `run` or `assumed`. */
  source: string;
  /** In order of the number of tasks. */
  points: ForecastPoint[];
  /** The largest number of tasks in `points` up to which more are worthwhile; 0 if not even the first is. */
  pays_until: number;
  /** A sentence about where more tasks stop being worthwhile, and why. */
  why: string;
  /** The assumptions of the forecast. */
  notes: string[];
  problems: Problem[];
}

/** The target: exactly one of the first three. */
export interface ScaleTarget {
  examples_per_second: number;
  /** Hours in which to train on `examples`. */
  hours: number;
  /** A budget: train on `examples` as fast as possible within this many device hours. */
  device_hours: number;
  /** The number of examples over all epochs. */
  examples: number;
}

/** A design with a model, the strategies that may be used, and the target. */
export interface PlanRequest {
  design: Design;
  target: ScaleTarget;
  /** Empty: all-reduce, synchronous parameter servers, and pipelines, with default settings. */
  settings: ForecastSettings[];
}

/** The best plan with one strategy. */
export interface PlanOption {
  title: string;
  settings: ForecastSettings;
  reached: boolean;
  /** The fewest tasks that reach the target, or else the ones closest to it. */
  point: ForecastPoint;
  /** Hours for the target's examples; 0 if it has none. */
  hours: number;
  device_hours: number;
  problem: string;
}

/** The fewest machines that reach a target, with their strategy, and the others for comparison. */
export interface ScalePlan {
  target: ScaleTarget;
  reached: boolean;
  best: PlanOption;
  others: PlanOption[];
  /** The cluster, the model, and the placement of a pipeline; once saved, it opens in the designer. */
  design: Design | null;
  why: string;
}

/** One part of a run's step compared with its forecast. */
export interface PartGap {
  /**
   * `input`, `compute`, `exchange`, `update`, `idle`, `step`, which is all of these, or `checkpoint`,
   * which is not part of it.
   */
  part: string;
  forecast_s: number;
  /** None if the run has not measured it. */
  measured_s: number | null;
  /** A comment, such as `the exchange is not hidden`, or why it was not measured. */
  text: string;
}

/** The comparison of a run with its forecast. */
export interface EfficiencyReport {
  run: string;
  title: string;
  /** The tasks that computed. */
  tasks: number;
  /** The steps that were counted; 0: too few to be meaningful. */
  steps: number;
  examples_per_second: number;
  forecast_examples_per_second: number;
  /** The fraction of the speed of as many tasks that never wait for each other; None if unknown. */
  efficiency: number | null;
  gaps: PartGap[];
  /** The task that the others wait for, if it is always the same. */
  slowest: string;
  /** Sentences, the most costly first. */
  findings: string[];
}

/** A run by its id, with its name when the file was written, as it may no longer be in the store. */
export interface DashboardRun {
  id: string;
  name: string;
}

/** One plot: a metric with its forms (`loss` has `epoch_loss` and `val_loss`), or one form alone. */
export interface DashboardPlot {
  metric: string;
  /** Weight of the past, 0 to 0.98. */
  smoothing: number;
  /** Whether the vertical axis is logarithmic. */
  log: boolean;
}

/** Runs that are overlaid in chosen plots. */
export interface RunsDashboard {
  version: number;
  title: string;
  /** The x axis of all plots. */
  x: string;
  runs: DashboardRun[];
  plots: DashboardPlot[];
}

export type StoryEvent = RunChanged | TaskChanged | Note | CheckpointSaved;

export type AnyEvent = RunChanged | TaskChanged | Note | CheckpointSaved | Logged | Progressed | EpochEnded | Submitted | TrialValued | SearchAsked | TracedSteps | Profiled;

export type ClientMessage = Subscribe | Show | Unsubscribe;

export type ServerMessage = HelloMessage | ClustersMessage | RunsMessage | EventsMessage | SeriesMessage | SocketError;

/** The jobs in the order in which forms offer them. */
export const USUAL_JOBS: readonly string[] = ['worker', 'ps', 'chief', 'evaluator'];

/** The jobs that train: ranks count them first, in this order. */
export const FIRST_JOBS: readonly string[] = ['chief', 'worker'];

/** Jobs that hold variables or only evaluate: they come last by rank and get no GPU unless the user assigns one. */
export const CPU_JOBS: readonly string[] = ['ps', 'evaluator'];

export const MAX_TASKS_PER_JOB = 10000;

/** A job's name: what TensorFlow accepts between "/job:" and "/task:". A regular expression that matches a full line. */
export const JOB_NAME = /^[a-zA-Z][a-zA-Z0-9_]*$/;

/** The name of a cluster or a template. A regular expression that matches a full line. */
export const CLUSTER_NAME = /^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$/;

/** The final states. */
export const FINAL_STATES: readonly RunState[] = ['succeeded', 'failed', 'stopped', 'lost'];

export const STORY: readonly string[] = ['run', 'task', 'note', 'checkpoint'];

/** The default number of steps of a profile. */
export const PROFILE_STEPS = 3;

/** Layer classes whose columns can be split over devices. */
export const SPLITTABLE: readonly string[] = ['Dense', 'Embedding'];

/** The strategies that can be forecast: all-reduce, parameter servers, in-graph replicas, pipelines. */
export const FORECAST_STRATEGIES: readonly string[] = ['allreduce', 'ps', 'mirrored', 'pipeline'];

/** The algorithms of all-reduce. */
export const FORECAST_ALGORITHMS: readonly string[] = ['auto', 'ring', 'hierarchical', 'tree'];

/** The precisions of computation. Not every device has all of them. */
export const FORECAST_PRECISIONS: readonly string[] = ['fp32', 'tf32', 'bf16', 'fp16'];

/** The transports between machines. */
export const FORECAST_TRANSPORTS: readonly string[] = ['tcp', 'rdma'];

/** The compression of gradients. */
export const FORECAST_COMPRESSIONS: readonly string[] = ['none', 'fp16', 'bf16'];

export const DESIGN_SUFFIX = '.dtf';

export const RUNS_DASHBOARD_SUFFIX = '.dtfplots';

/**
 * Metrics of a task's processes rather than its model, and their units. The host measures the resources that they use;
 * the task reports what it sends to other machines of its run, and how much of each second it spends in exchanges.
 */
export const TASK_LOAD: Readonly<Record<string, string>> = {"cpu": "cores", "memory_bytes": "bytes", "network_bytes_per_second": "bytes_per_second", "network_seconds": "seconds"};

/**
 * Metrics of the parts of a task's training steps, and their units: seconds per step, averaged since the last report,
 * about once a second. In this order: computing, which is the remainder; waiting for the batch; exchanging with other
 * tasks; the part of that spent waiting for them; snapshots for checkpoints. All except waiting for others add up to the
 * step. Parts that a strategy does not measure are left out, and count as computing.
 */
export const STEP_PARTS: Readonly<Record<string, string>> = {"step_compute_seconds": "seconds", "step_input_seconds": "seconds", "step_exchange_seconds": "seconds", "step_wait_seconds": "seconds", "step_checkpoint_seconds": "seconds"};

/**
 * The prefixes of metrics that a task reports of a task on another machine, whose name follows, and their units: what
 * it sends to it in a step, and how long that takes. A slow link delays the sender.
 */
export const PAIR_LOAD: Readonly<Record<string, string>> = {"bytes_per_step_to_": "bytes", "seconds_per_step_to_": "seconds"};

/** Metrics of the training's speed rather than its quality; shown after the model's own. */
export const SPEED_METRICS: readonly string[] = ['learning_rate', 'examples_per_second', 'step_seconds'];

/** A regular expression for the names of metrics of which less is better. Takes precedence over `MORE`. */
export const LESS_IS_BETTER_NAME = /loss|error|entropy|divergence|perplexity|(?:^|_)(?:mse|mae|mape|msle|rmse|nll|wer|cer)(?:_|$)/;

/** The same for metrics of which more is better. */
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
  Design: {"version": 1, "cluster": {"name": "", "kind": "local", "jobs": {"worker": 2}, "options": {}, "hosts": [], "tasks": []}, "model": null, "placement": {"devices": {}, "splits": {}, "pinned": []}, "run": {"batch_size": 64, "microbatches": 8, "replicas": 1, "epochs": 1}, "calibration": null, "drawing": {}},
  ForecastSettings: {"strategy": "allreduce", "tasks": [], "batch_size": 0, "per_device": 0, "algorithm": "auto", "compression": "none", "sync": false, "servers": 1, "backup_workers": 0, "microbatches": 0, "stages": 0, "replicas": 0, "device": "", "precision": "fp32", "utilisation": 0.0, "network": "", "transport": "tcp", "local": "", "link": null, "devices_per_machine": 0, "input_examples_per_s": 0.0, "straggling": 0.0, "threshold": 0.5},
  ScaleTarget: {"examples_per_second": 0.0, "hours": 0.0, "device_hours": 0.0, "examples": 0.0},
  DashboardRun: {"name": ""},
  DashboardPlot: {"smoothing": 0.0, "log": false},
  RunsDashboard: {"version": 1, "title": "", "x": "step", "runs": [], "plots": []}
};

/** An event with its number within its run, as the socket sends it. */
export type NumberedEvent = AnyEvent & { seq: number };
