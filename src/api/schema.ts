// Made from jupyter_dtf/schema by `python -m jupyter_dtf.schema.typescript`. Change the structs there, not this file.

/** The newest and the oldest protocol that this page supports: `jupyter_dtf/schema/protocol.py`. */
export const PROTOCOL = 1;
export const OLDEST = 1;

/** The states of a run. `RunState.step` defines the transitions. */
export type RunState = 'pending' | 'launching' | 'running' | 'restarting' | 'pausing' | 'paused' | 'stopping' | 'succeeded' | 'failed' | 'stopped' | 'lost';

/** The states of a task's process. */
export type TaskState = 'pending' | 'starting' | 'running' | 'serving' | 'finished' | 'succeeded' | 'failed' | 'stopped' | 'lost';

/** The state of a cluster as a viewer sees it. */
export type ClusterState = 'starting' | 'running' | 'stopping' | 'stopped' | 'failed' | 'lost';

/** The progress of a run: `done` of `total` units; `total` is 0 if unknown. */
export interface Progress {
  done: number;
  total: number;
  unit: string;
  /** The current epoch, counted from 1; 0 if the program has no epochs. */
  epoch: number;
  epochs: number;
}

/** The newest profile that was requested while a run was active. */
export interface RunProfile {
  /** The number of the profile in the run, counted from 1. */
  number: number;
  steps: number;
  done: boolean;
  /** The reason why there is no trace, if the profile has ended without one. */
  message: string;
}

/** One task of a run. `task` is its short name, such as `worker:1`. */
export interface TaskInfo {
  task: string;
  state: TaskState;
  /** The number of times that the task was restarted. */
  attempt: number;
  /** The name of the Dask worker on which the task runs. */
  host: string;
  pid: number;
  /** `host:port`, which is reserved for the task's TensorFlow server for the duration of the run. */
  endpoint: string;
  /** The task's GPUs, as named in CUDA_VISIBLE_DEVICES: numbers on its machine, or UUIDs. */
  gpus: string[];
  exit_code: number | null;
  /** The name of the signal that ended the task, such as `SIGKILL`, if any. */
  signal: string;
  /** The last line of the traceback, or the reason why the task was ended. */
  message: string;
  traceback: string;
}

/** The best value of a metric, and when it was reached. */
export interface Best {
  value: number;
  step: number;
  /** The epoch, counted from 1; 0 if there are no epochs. */
  epoch: number;
}

/** A piece of code that was submitted with a run. */
export interface Source {
  /** The path of the file, `cell` for a cell of a notebook, or the name of a function. */
  name: string;
  text: string;
}

/** The provenance of a run. Lists of runs contain it, so it must be small; code is in an event instead. */
export interface Origin {
  /** The model's name; empty for a program without a known model. */
  model: string;
  /** The number of the model's parameters. None: the model had not been built, or the tasks create it. */
  weights: number | null;
  /** The form of the training data: `arrays`, `tf.data.Dataset`, `function`. */
  data: string;
  /**
   * The versions of packages and of Python, keyed by their usual names: `TensorFlow`, `Keras`, `jupyter_dtf`,
   * `Python`.
   */
  versions: Record<string, string>;
  /** The working directory. */
  directory: string;
  /** The commit checked out in the Git repository of the working directory; empty if there is no repository. */
  commit: string;
  /** The branch checked out there; empty if there is none. */
  branch: string;
}

/** The marks of a run, as they are stored. */
export interface RunMarks {
  /** The new name of the run; empty: the name with which it was submitted. */
  name: string;
  tags: string[];
  note: string;
  /** Whether lists omit the run unless archived runs are requested. */
  archived: boolean;
  /**
   * When the run was deleted, in seconds since the epoch. A deleted run is not listed, but can be restored for a
   * limited time.
   */
  deleted: number | null;
}

/** A change to the marks of a run. Null leaves a field unchanged; an empty `name` restores the original name. */
export interface RunPatch {
  name?: string | null;
  tags?: string[] | null;
  note?: string | null;
  archived?: boolean | null;
  deleted?: boolean | null;
}

/** A notification about a run. */
export interface Alarm {
  /** The condition: `nan`, `no improvement`, `idle`, `memory` or `end`. */
  about: string;
  title: string;
  text: string;
  task: string;
  /** The time at which the condition was detected, in seconds since the epoch. */
  time: number;
}

/**
 * The trial that a run executes, and its search. The trial's parameters are those of the run.
 *
 * The trial's values are reported at its end.
 */
export interface TrialInfo {
  /** The id of the search, which is the same for all its trials, including those of processes that continue it. */
  search: string;
  /** The name of the search. */
  name: string;
  /** The number of the trial, counted from 0. */
  number: number;
  /** The objectives, most important first, each with `minimize` or `maximize`. Empty: trials are not ranked. */
  objectives: Record<string, string>;
  /** The names of the searched parameters, in the order of the space. */
  parameters: string[];
  /** The names of the parameters that are sampled from a logarithmic range. */
  logarithmic: string[];
  /** The names of the parameters whose values are not plain data: the run's parameters contain their `repr`. */
  in_words: string[];
  /** The number of trials of the search; 0 if it is unlimited. */
  most: number;
  /** Whether more trials can be requested while the search is running. */
  may_grow: boolean;
  /** The number of trials beyond `most` that were requested while this trial was running. */
  asked_more: number;
  /** Whether a stop of the search was requested while this trial was running. */
  asked_stop: boolean;
}

/** A request to the program that drives a search: to `stop` the search, or to run `more` additional trials. */
export interface SearchRequest {
  stop?: boolean;
  more?: number;
}

/**
 * The summary of a run: its descriptor and the effect of its events before `next_seq`, without output and points.
 *
 * Only `backend/records/apply_event.py` and `run_record.py` create summaries. Copies that are stored or sent are
 * caches: of two summaries, the one with the higher `next_seq` is more recent.
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
  /** The user's settings, such as batch size, epochs and optimizer, which are shown in the dashboard. */
  parameters: Record<string, unknown>;
  run_dir: string;
  /** Whether the run writes checkpoints from which it, or another run, can continue. */
  goes_on: boolean;
  /** The id of the run from whose checkpoint this run continues; empty if there is none, or it is unknown. */
  resumed_from: string;
  /** The provenance of the run; empty if the run predates this field. */
  origin: Origin;
  /** The trial that the run executes, with its search; None if the run is not a trial. */
  trial: TrialInfo | null;
  /**
   * The identity of the run's cluster. The cluster's name is not sufficient, because a later cluster may have the
   * same name. Empty if the run predates this field.
   */
  cluster_id: string;
  state: RunState;
  /** One line that states why the run is waiting, or why it failed. */
  message: string;
  started: number | null;
  ended: number | null;
  /** The tasks; empty until they have been placed on hosts. */
  tasks: TaskInfo[];
  progress: Progress;
  /** The latest value of each metric, averaged over the tasks that report it. */
  latest: Record<string, number | null>;
  /**
   * The part of `latest` shown in lists, most important first: a trial's objective, otherwise the loss, or the
   * first metric that the program reports; never a machine metric. For a run that has ended, these are the last epoch's
   * values.
   */
  headline: Record<string, number | null>;
  /** The metrics that became non-finite, each with a sentence such as `loss became NaN at step 8 on worker:1`. */
  not_finite: Record<string, string>;
  /**
   * The best value so far of each metric in `headline` whose direction is known, over epochs, or over points if the
   * program has no epochs. Complete only in a run's record, and in summaries to which points were applied.
   */
  best: Record<string, Best>;
  /** The tasks for which the other tasks currently wait in every step, each with a sentence about it. */
  slow: Record<string, string>;
  /** The newest notifications, at most `MOST_KEPT`, oldest first. */
  alarms: Alarm[];
  /** The latest checkpoint; None if there is none yet. */
  checkpoint: CheckpointInfo | null;
  /** The newest profile that was requested; None if there was no request. */
  profile: RunProfile | null;
  /** At most 60 values of a trial's objective, or of the loss (or the first metric in `headline`), oldest first. */
  sparkline: number[];
  /** The steps of the first and the last value of the sparkline; empty if the sparkline is empty. */
  sparkline_steps: number[];
  /** The values that a trial's program returned for its objectives. If it returned none, `latest` is used. */
  values: Record<string, number | null>;
  /** Whether a trial was ended because it was unpromising. */
  pruned: boolean;
  /** The name, tags and note set by the user. They are not events; the hub of each viewer adds them. */
  marks: RunMarks;
  /** The sequence number of the first event that has not been applied. */
  next_seq: number;
  /**
   * Like `next_seq`, but for the values that are derived from points: `latest`, `headline` and the sparkline. 0
   * if points were not decoded, as in the controller, which passes them on as bytes.
   */
  points_seq: number;
}

/** A host in a design, with its devices. */
export interface HostDesign {
  name: string;
  cpus: number;
  /** The memory of the host; 0: unknown. */
  memory_bytes: number;
  /** The memory of each GPU in bytes, starting with `GPU:0`; 0: unknown. */
  gpus: number[];
}

/** The placement of a task on a device of a host. Tasks without a placement are assigned to hosts automatically. */
export interface TaskPlace {
  job: string;
  index: number;
  host: string;
  /** `CPU`, or a GPU of the host, such as `GPU:1` for the second one. */
  device: string;
  /** The largest amount of device memory that the task may allocate, in bytes; 0: no limit. */
  memory_bytes: number;
}

/** A request to start a cluster. `options` are the options of its kind (`KindInfo.fields`). */
export interface ClusterRequest {
  /** The name of the cluster; empty: choose an unused name. */
  name?: string;
  kind?: string;
  jobs?: Record<string, number>;
  options?: Record<string, unknown>;
  /** The hosts in the design, which must exist; empty: the hosts that the kind provides. */
  hosts?: HostDesign[];
  /** Tasks with an assigned host; all other tasks are assigned to hosts automatically. */
  tasks?: TaskPlace[];
  /** Whether to keep the cluster running until it is stopped, with or without clients. */
  keep?: boolean;
  /**
   * Without `keep`: end the cluster this many seconds after its last client has disconnected, but never during a
   * run.
   */
  grace_s?: number;
}

/** A change to a running cluster: the new number of tasks of each job. */
export interface ClusterPatch {
  jobs: Record<string, number>;
}

/** The cluster on which to resume a run, and the checkpoint from which to resume it. */
export interface ResumeRequest {
  /** The name of the cluster; empty: the cluster of the original run. */
  cluster?: string;
  /** The step of the checkpoint. None: the newest checkpoint. */
  step?: number | null;
}

/** A request to trace the next `steps` steps of an active run. */
export interface RunProfileRequest {
  steps?: number;
}

/** A request to copy an example into `folder`, which is a path in the server's contents manager. */
export interface ExampleRequest {
  folder: string;
}

/** The path of the copy of an example. Its file name was not in use before. */
export interface ExampleCopy {
  path: string;
}

export interface GpuInfo {
  /** The name of the GPU in CUDA_VISIBLE_DEVICES: its UUID. */
  id: string;
  index: number;
  name: string;
  memory_bytes: number;
  memory_used_bytes: number;
  /** The utilization, from 0 to 1. */
  utilization: number;
  /** None, like all following fields, if the GPU or its driver does not report the value. */
  power_watts: number | null;
  temperature_celsius: number | null;
  pcie_received_bytes_per_second: number | null;
  pcie_sent_bytes_per_second: number | null;
  /** The total over all NVLinks. */
  nvlink_received_bytes_per_second: number | null;
  nvlink_sent_bytes_per_second: number | null;
}

/** A host: one Dask worker and the tasks that run on it. */
export interface HostInfo {
  name: string;
  address: string;
  machine: string;
  threads: number;
  /** The Dask worker's memory limit, or the machine's memory if the worker has no limit. */
  memory_bytes: number;
  /** The number of cores in use by the host and its tasks. */
  cpu: number;
  memory_used_bytes: number;
  /** The GPUs that the Dask worker may use, in the order in which it uses them. */
  gpus: GpuInfo[];
  /** Whether TensorFlow is imported, so that tasks start immediately. */
  warm: boolean;
  /** Why the ports of TensorFlow's servers are not closed to other users on this machine; empty if they are closed. */
  unguarded: string;
  /** The host's share of the tasks, relative to other hosts; 0: the same share as any other. */
  slots: number;
  /** The host of the design with which this host was matched, if any. */
  drawn: string;
  /** The packages whose versions differ between host and cluster, with both versions; empty if none differs. */
  problem: string;
}

/** A host that was requested but is not yet, or no longer, a Dask worker. */
export interface ComingHost {
  name: string;
  /** The current step, such as `connecting` or `starting Python`; `waiting` until the next attempt. */
  step: string;
  /** Why the host could not be used, from its last output. The host is retried unless `step` is `ended`. */
  problem: string;
}

/** One metric of one host over time, oldest value first, and how to draw it (`HOST_FIGURES` in `metrics.py`). */
export interface MachineSeries {
  host: string;
  metric: string;
  /** The plot that the series shares with other series of the host; empty: a separate plot. */
  plot: string;
  /** The name of the series' line in the plot. */
  line: string;
  /**
   * `cores`, `bytes`, `bytes_per_second`, `fraction`, `seconds`, or any other text to show after the
   * number.
   */
  unit: string;
  /** Seconds since the epoch, by the host's clock. */
  time: number[];
  value: number[];
}

/** The host and the GPUs on which one task of a cluster would run with default settings. */
export interface TaskLocation {
  /** The name of the task, such as `worker:1`. */
  task: string;
  host: string;
  /** The indices of the host's GPUs that the task sees as `GPU:0` and so on; empty: the task computes on the CPU. */
  gpus: number[];
  /** The task's memory limit on each of its GPUs; 0: no limit. */
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
  /** The tasks in rank order; empty until the hosts have joined. */
  tasks: TaskLocation[];
  created: number;
  active_runs: number;
  /** Notes for the user, for example that there are more tasks than cores. */
  notes: string[];
  /** Problems that require action, for example that runs cannot be saved. Each message states what to do. */
  warnings: string[];
  /** Seconds since the cluster last responded, if that is longer than usual; 0 while it responds. */
  silent_s: number;
  /**
   * The reason why this version of jupyter_dtf cannot communicate with the cluster, with the protocols of both and
   * advice; empty if it can.
   */
  incompatible: string;
}

/** One option of a kind of cluster, as a form shows it. */
export interface FieldInfo {
  name: string;
  title: string;
  /**
   * `integer`, `number`, `bytes`, `string`, `boolean`, `choice`, or `list`: a list of strings, which
   * are separated by commas in forms and on the command line.
   */
  type: string;
  default: unknown;
  help: string;
  minimum: number | null;
  maximum: number | null;
  choices: string[];
  /** Whether this option is the number of hosts. If a design lists its hosts, the design determines their number. */
  counts_hosts: boolean;
}

/** A kind of cluster. If it is not available, `missing` states what it needs. */
export interface KindInfo {
  kind: string;
  title: string;
  available: boolean;
  missing: string;
  fields: FieldInfo[];
}

/** A problem with one field of a request. */
export interface Problem {
  field: string;
  message: string;
  level: string;
}

/** The cluster that a ClusterRequest would start. Ports are 0, because each run chooses its own. */
export interface Preview {
  cluster_spec: Record<string, string[]>;
  /** TF_CONFIG as a JSON string for each of the first hundred tasks, `worker:0` first. */
  tf_config: Record<string, string>;
  problems: Problem[];
  /** The hosts that the cluster would have, as far as they are known in advance. */
  hosts: HostDesign[];
  /** The script that would be submitted to the batch system for each host; empty if the kind uses none. */
  script: string;
  /**
   * Options of the kind that depend on the values entered so far, such as the options that the chosen gateway offers.
   * They are shown after the options in `KindInfo`.
   */
  fields: FieldInfo[];
}

/** A saved cluster request. */
export interface Template {
  name: string;
  request: ClusterRequest;
}

/** The versions and notes of the server, so that the browser can tell an outdated server from a missing one. */
export interface StatusInfo {
  version: string;
  /** The newest protocol that the server supports (`schema.protocol`); `oldest` is the oldest. */
  protocol: number;
  oldest: number;
  dask: string;
  /** The installed version of TensorFlow; empty if it is not installed. */
  tensorflow: string;
  /** Notes about this server for the user, for example that the store of past runs cannot be read. */
  notes: string[];
}

/** The path of a cluster's Dask dashboard on the Jupyter server, through which browsers reach the dashboard. */
export interface DashboardInfo {
  url: string;
}

/**
 * A page of the output of a run's tasks, oldest first. `events` are `log` events as JSON.
 *
 * To request the adjacent page, pass the time of the first event as `before_time`, or that of the last event as
 * `after_time`.
 */
export interface OutputPage {
  run: string;
  events: Record<string, unknown>[];
  /** Whether there is output before this page. */
  earlier: boolean;
  /** Whether there was output after this page when the page was read. */
  later: boolean;
  /** The number of lines of the stream so far, if the page was requested by line numbers; otherwise 0. */
  total: number;
}

/** The body of every error response. */
export interface ErrorInfo {
  message: string;
  /** The class name of the error. */
  error: string;
  field: string;
}

/** One complete checkpoint. */
export interface CheckpointInfo {
  /** The number of completed steps, over all epochs. */
  step: number;
  /** The epoch in which training continues, counted from 0. */
  epoch: number;
  /** The number of completed steps of that epoch. */
  step_in_epoch: number;
  /** The time at which the values were captured, in seconds since 1970. */
  time: number;
  bytes: number;
  /** The value of the metric `best` at the end of the checkpoint's epoch; None if there is none. */
  metric: number | null;
  /** The checkpoint's directory on the chief's machine. */
  path: string;
  /** The time that writing took while the program continued, in seconds; 0 if unknown. */
  seconds: number;
}

/** The run changed its state. */
export interface RunChanged {
  type: 'run';
  time: number;
  state: RunState;
  message: string;
}

/** A task changed its state. An event of a later attempt resets the task; one of an earlier attempt is outdated. */
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
 * A note about the values of a metric, such as the first non-finite one, has `metric` and `step` and is marked on
 * that metric's plot. Other notes with a `mark` are marked on every plot.
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
  /** The text of the mark: `SLOW`, `PRUNED`, or one or two other words. */
  mark: string;
  /** The condition, such as `nan`, if the user requested to be notified of it (`schema/notify.py`). */
  alarm: string;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** A checkpoint was completed, and the checkpoints of the steps in `removed` were deleted. */
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
 * Lines of output of a task. `first` is the number of the first line, within the task and stream.
 *
 * A later attempt continues the numbering of the previous one. The stream of events carries no more output than a user
 * can read, and retains only the most recent part: if `first` skips lines, these are only in the run's files. An
 * event without lines stands for lines that are no longer retained.
 */
export interface Logged {
  type: 'log';
  time: number;
  task: string;
  stream: string;
  first: number;
  lines: string[];
  /** Whether the host writes the output to the run's files. A host without access to these files cannot write them. */
  kept: boolean;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** The progress of the run, as reported by the chief. */
export interface Progressed {
  type: 'progress';
  time: number;
  progress: Progress;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/**
 * The logs of an epoch, averaged over the tasks, as recorded by Keras's `History`. `epoch` is counted from 0.
 *
 * The first such event of a later attempt replaces that epoch and all later ones (`last_epochs`).
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

/** The code and the design that the run was submitted with. If a run has this event, it is the first one. */
export interface Submitted {
  type: 'submitted';
  time: number;
  /** The sources that could be found. */
  code: Source[];
  /** The design that the run was started from, if any, as the text of a `.dtf` file (`schema/design.py`). */
  design: Source | null;
}

/** The values that the program of a trial returned, keyed by objective; NaN for values that are not numbers. */
export interface TrialValued {
  type: 'trial';
  time: number;
  values: Record<string, number | null>;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** A request to the program that drives a trial's search: to stop it, or to run `more` additional trials. */
export interface SearchAsked {
  type: 'search_asked';
  time: number;
  stop: boolean;
  more: number;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/** The progress of a task in recording a requested profile. */
export interface TracedSteps {
  type: 'traced';
  time: number;
  task: string;
  /** The number of the profile in the run. */
  profile: number;
  /**
   * `waits` (for the next step to begin), `begun` (steps are being traced), `left` (the trace has been written)
   * or `failed`.
   */
  stage: string;
  /** Whether the task has already reported the beginning of a step. */
  has_steps: boolean;
  first: number;
  /** The first and the last step of the trace, once it has been written. */
  last: number;
  /** The reason for a failure. */
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
  /** The reason why there is no trace, if the profile has ended without one. */
  message: string;
  /** The number of earlier starts of the task: 0 at first, 1 after a restart. */
  attempt: number;
}

/**
 * A histogram of values at a step: `counts` in bins of equal width from `low` to `high`.
 *
 * Non-finite values are not in any bin. If there are no finite values, there are no bins, and both limits are 0.
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
 * An image reported at a step, as a PNG of at most `media.MOST_PICTURE_BYTES`.
 *
 * `width` and `height` are in pixels. An image with an empty `png` takes the place of a dropped event and is
 * ignored.
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

/** A string reported at a step, of at most `media.MOST_TEXT_BYTES` as UTF-8. */
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

/** A table reported at a step. Every row has a cell for each of `columns`; numbers are finite. */
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

/** The histograms, images, strings or tables that a task reported under one name and that were kept. */
export interface MediaSeries {
  kind: string;
  name: string;
  task: string;
  /** The steps of the items, in ascending order. */
  steps: number[];
}

/**
 * Requests a run's events after the sequence number `after` (-1: all), and its series.
 *
 * The series are decimated for plots that are `width` pixels wide. `metrics` are the metrics whose series to send;
 * null: all.
 */
export interface Subscribe {
  type: 'subscribe';
  run: string;
  after?: number;
  width?: number;
  x?: string;
  metrics?: string[] | null;
}

/** Restricts a subscribed run's series to these metrics from now on. Each series continues where it stopped. */
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
 * The first message: the protocols that the server supports (`schema.protocol`), and its version.
 *
 * A page states its protocols when it opens the socket (`?protocol=1&oldest=1`). If the page and the server have
 * none in common, the server sends nothing else and closes the socket.
 */
export interface HelloMessage {
  type: 'hello';
  protocol: number;
  oldest: number;
  version: string;
}

/** All clusters. Sent on connection and after every change. */
export interface ClustersMessage {
  type: 'clusters';
  clusters: ClusterInfo[];
}

/** Runs that are new or have changed. The first message after connection (`all`) contains all runs. */
export interface RunsMessage {
  type: 'runs';
  runs: RunInfo[];
  all: boolean;
  removed: string[];
}

/**
 * Events of a subscribed run, except points. To resume, subscribe after `next_seq` - 1.
 *
 * Each event is a struct of `schema.events` as JSON, with `seq` added.
 */
export interface EventsMessage {
  type: 'events';
  run: string;
  events: NumberedEvent[];
  next_seq: number;
}

/**
 * One decimated line of one plot. Its points replace all but the first `start` points that were sent before.
 *
 * null stands for a non-finite value, which is drawn as a gap.
 */
export interface SeriesFrame {
  metric: string;
  /**
   * The task, such as `worker:1`; empty for the mean over the tasks at each step, which exists if several tasks
   * report.
   */
  task: string;
  start: number;
  x: (number | null)[];
  y: (number | null)[];
  /**
   * Empty if these points belong to the training that led to the model. If a later attempt replaced them, this is the
   * name of their task, and `task` also includes the attempt (`worker:1, attempt 1`), so that a reader that does not
   * know this field draws a separate line.
   */
  replaced: string;
}

/** The changes to the decimated series of a subscribed run. */
export interface SeriesMessage {
  type: 'series';
  run: string;
  frames: SeriesFrame[];
}

/** The error for a message that could not be handled. */
export interface SocketError {
  type: 'error';
  message: string;
  run: string;
}

/** One execution of one operation. */
export interface TracedOp {
  step: number;
  /** The name of the operation's node in the graph; for an eager operation, its type. */
  op: string;
  /** The type that was executed. TensorFlow's optimizer may have replaced the original, as with `_FusedMatMul`. */
  op_type: string;
  /** The device, such as `/job:worker/task:1/device:CPU:0`; only the job and the task if the device is unknown. */
  device: string;
  /** Microseconds since the trace's `origin_us`. */
  start_us: number;
  duration_us: number;
}

/** A tensor that was sent from one task to another. */
export interface Transfer {
  step: number;
  /** The name of the operation that produced the tensor. */
  tensor: string;
  /** The device that sent the tensor. */
  source: string;
  target: string;
  bytes: number;
  /** The time at which the receiver had requested the tensor and the sender had it ready, whichever was later. */
  start_us: number;
  duration_us: number;
}

/** A trace, ordered by start times. */
export interface TraceData {
  /** The time, in microseconds since 1970, to which all times in the trace are relative. */
  origin_us: number;
  ops: TracedOp[];
  transfers: Transfer[];
  /** A sentence for each operation that was replaced, or did not run on the device on which the program placed it. */
  warnings: string[];
  /** The number of omitted operations, which are the shortest ones. */
  left_out: number;
  /** The number of the profile in the run, counted from 1; 0: the steps of `trace_steps`. */
  profile: number;
}

/** One layer that computes, rather than a container of layers. A layer that is called several times is one node. */
export interface Layer {
  /** The path of the layer in the model, such as `encoder/dense_1`: its containers and its name. */
  id: string;
  /** The class of the layer, such as `Dense`. */
  kind: string;
  calls: number;
  /** The shapes of the layer's inputs in its first call, with a batch of one example. */
  input_shapes: number[][];
  output_shapes: number[][];
  /** The number of elements of the layer's weights, trainable or not. */
  parameters: number;
  parameter_bytes: number;
  gradient_bytes: number;
  /** Bytes of the optimizer's slots for the layer's weights. */
  slot_bytes: number;
  /** Bytes of the outputs of the layer's operations in a forward pass, which the backward pass may need. */
  activation_bytes: number;
  /** Floating-point operations of a forward pass. A multiplication and an addition count as two. */
  flops: number;
}

/** An output of a layer that another layer needs. */
export interface Edge {
  source: string;
  target: string;
  /** Bytes sent in a forward pass; the backward pass sends as many in the opposite direction. */
  bytes: number;
}

/** An input of the model. It is not placed like a layer, but sent to the devices of the layers that use it. */
export interface Input {
  /** The key or name of the input's data, or else its position in the argument of `call`. */
  name: string;
  /** The shape with a batch of one example, as for layers. */
  shape: number[];
  /** The dtype; empty if the model does not specify it. */
  dtype: string;
  /** The ids of the layers that use the input, in order. */
  targets: string[];
}

/** A reason why `dtf.Pipeline` cannot train the model as it was compiled when it was described. */
export interface Refusal {
  /**
   * The field of a design that is the cause, such as `run.replicas`, or `model` if the reason applies to every
   * design.
   */
  field: string;
  message: string;
}

/** The layers of a model, in the order in which they are first called, and the edges between them. */
export interface LayerGraph {
  model: string;
  layers: Layer[];
  edges: Edge[];
  inputs: Input[];
  /** Facts about the model that could not be determined. */
  notes: string[];
  refusals: Refusal[];
  /** Whether a pipeline of this model alternates forward and backward passes (`schedule="1f1b"`). */
  takes_turns: boolean;
}

/** The devices on which the layers of a model run. Each layer is either in `devices` or in `splits`. */
export interface Placement {
  /** The device of each layer, such as `/job:worker/task:1/device:CPU:0`. */
  devices: Record<string, string>;
  /** For each layer whose columns are split, the devices that hold its parts, in the order of the columns. */
  splits: Record<string, string[]>;
  /** The layers whose device the user chose. Automatic placement does not move them. */
  pinned: string[];
}

/** A device on which layers can be placed. */
export interface Device {
  /** The name of the device, such as `/job:worker/task:1/device:CPU:0`. */
  name: string;
  flops_per_s: number;
  /** The memory of the device; 0: unlimited. */
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
  /**
   * For each layer, the seconds of its forward pass and backward pass for a microbatch, and of its update, on a
   * device as fast as the first one.
   */
  layer_seconds: Record<string, number[]>;
  /** The time that each step takes in addition to layers and transfers, in seconds. */
  overhead_s: number;
}

/** The work of one device in a step, and the memory that the device needs. */
export interface DeviceLoad {
  device: string;
  /** The memory needed for weights, gradients, optimizer slots, and the activations held at one time. */
  memory_bytes: number;
  /** The memory available; 0 if unknown. */
  memory_limit_bytes: number;
  /** The device's share of a step's work, from 0 to 1. */
  share: number;
  /** The time per step during which the device is busy, in seconds. */
  busy_s: number;
  /** Bytes sent per step. */
  sent_bytes: number;
  received_bytes: number;
  layers: number;
  /** Why the layers do not fit on the device, with the sizes; empty if they fit. */
  problem: string;
  /** Why a complete placement assigns no layer to the device, with the time that a step would take if it did. */
  unused: string;
  /**
   * The memory needed if all forward passes of a batch ran before the first backward pass; 0 if that is already the
   * order.
   */
  filled_bytes: number;
}

/** An edge of the graph that connects layers on different devices. */
export interface Cut {
  source: string;
  target: string;
  source_device: string;
  target_device: string;
  /** Bytes in the forward pass of one microbatch. */
  bytes: number;
}

/** A period in which a device is busy with one microbatch, for the timeline. */
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
  /** Whether the prediction is based on measurements of the real devices; otherwise, times are only relative. */
  calibrated: boolean;
  devices: DeviceLoad[];
  cuts: Cut[];
  timeline: Slot[];
  problems: Problem[];
}

/** The cluster of a design. */
export interface ClusterDesign {
  /** The name of the cluster; empty: choose an unused name. */
  name: string;
  kind: string;
  jobs: Record<string, number>;
  /** The options of the kind of cluster. */
  options: Record<string, unknown>;
  /** The hosts in the design; empty: the hosts that the kind provides. */
  hosts: HostDesign[];
  tasks: TaskPlace[];
}

/** The origin of the model, from which it can be read again. */
export interface ModelSource {
  kind: string;
  /** The path of the file, or of the notebook whose kernel has the variable, relative to the server's folder. */
  path: string;
  variable: string;
}

/** A model, described by its layers. */
export interface ModelDesign {
  graph: LayerGraph;
  source: ModelSource;
}

/** Settings for training the model. */
export interface RunSettings {
  /** The number of examples per step, over all microbatches and replicas. */
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
   * The state of the designer's view, without effect on the cluster or training: the ids of the model's blocks that
   * are `folded` or `unfolded` contrary to the default. Other keys are kept unchanged.
   */
  drawing: Record<string, unknown>;
}

/** A problem with one of a design's fields, or with text that could not be parsed. */
export interface DesignProblem {
  field: string;
  message: string;
  level: string;
  /** The line, counted from 1 like `column`; 0 if the problem is with a field. */
  line: number;
  column: number;
}

/**
 * The cluster that a design would create, and the design's problems.
 *
 * Ports are 0, because each run chooses its own.
 */
export interface DesignReport {
  cluster_spec: Record<string, string[]>;
  /** TF_CONFIG as a JSON string for each of the first hundred tasks, `worker:0` first. */
  tf_config: Record<string, string>;
  /** The device on which each task computes, such as `/job:worker/task:1/device:GPU:0`. */
  devices: Record<string, string>;
  problems: DesignProblem[];
  prediction: Prediction | null;
  /** The design in the current format, if the text that was checked is in an older one. */
  text: string;
}

/** A model in a file, given by its path below the server's folder. */
export interface DescribeRequest {
  path: string;
}

/** A design whose model is in a file, and the cluster on which to measure the model. */
export interface ProfileRequest {
  design: Design;
  cluster: string;
}

/** A layer of a run: the devices on which it was placed, and those on which its operations ran. */
export interface LayerPlace {
  layer: string;
  planned: string[];
  actual: string[];
}

/** The durations of a run's untraced steps, in seconds. */
export interface StepTimes {
  count: number;
  /** The number of initial steps that are excluded because the model is built, traced and checked in them. */
  left_out: number;
  median_s: number;
  /** The first quartile: a quarter of the steps took less. */
  low_s: number;
  /** The third quartile: a quarter of the steps took more. */
  high_s: number;
  /** The batch size of the run; 0 if unknown. */
  batch_size: number;
}

/** The planned and actual devices of a run's layers, and when each device was busy in the last traced step. */
export interface RunPlacement {
  layers: LayerPlace[];
  timeline: Slot[];
  /** The duration of the traced step in seconds; tracing slows it down. */
  step_seconds: number;
  /** None if the run has not completed enough steps yet. */
  steps: StepTimes | null;
}

/** The specifications of a device, from its manufacturer's data sheet. */
export interface DeviceFigures {
  name: string;
  title: string;
  /** The peak performance without sparsity, keyed by precision: `fp32`, `tf32`, `bf16`, `fp16`. */
  flops_per_s: Record<string, number | null>;
  memory_bytes: number;
  memory_bytes_per_s: number;
  /** The fraction of the peak performance that training reaches without tuning. */
  utilization: number;
  source: string;
}

/** The specifications of a kind of network, in one direction. */
export interface NetworkFigures {
  name: string;
  title: string;
  /** The nominal bandwidth. */
  bytes_per_s: number;
  /**
   * The fraction of the bandwidth that collectives reach, keyed by transport: `tcp`, `rdma`, or `local` within
   * a machine.
   */
  efficiency: Record<string, number | null>;
  /** The latency of a small message, keyed by transport. */
  latency_s: Record<string, number | null>;
  /** Whether the network connects devices of one machine. */
  is_local: boolean;
  source: string;
}

/** The devices and networks that a forecast knows by name. */
export interface Hardware {
  devices: DeviceFigures[];
  networks: NetworkFigures[];
}

/** The settings of a forecast. Empty strings and 0: use the design, its calibration, or the default. */
export interface ForecastSettings {
  /**
   * `allreduce`, `ps`, `mirrored` (in-graph) or `pipeline`. Empty: the run's strategy, or `allreduce` for a
   * design.
   */
  strategy: string;
  /**
   * The numbers of tasks to forecast, not counting `ps` tasks; empty: 1, 2, 4, ..., 512. For a pipeline, each
   * number includes all stages and replicas.
   */
  tasks: number[];
  /** The number of examples per step over all tasks, regardless of the number of tasks (strong scaling). */
  batch_size: number;
  /**
   * The number of examples per step of each task (weak scaling). If this and `batch_size` are 0: the number per
   * task in the design.
   */
  per_device: number;
  /**
   * For all-reduce: `ring`, `hierarchical` (a reduction within each machine, then a ring between machines),
   * `tree`, or `auto`, which is the choice that `dtf.AllReduce` would make.
   */
  algorithm: string;
  /** The compression of gradients that are sent: `none`, `fp16` or `bf16`. */
  compression: string;
  /** For `ps`: whether all workers wait for the slowest one in each step. False by default, as in the strategy. */
  sync: boolean;
  /** The number of `ps` tasks, over which the variables are distributed. */
  servers: number;
  /** For `ps` with `sync`: the number of late gradients for which each step does not wait. */
  backup_workers: number;
  /** For a pipeline: the number of microbatches. 0: the number in the design. */
  microbatches: number;
  /** For a pipeline: the number of devices of one copy of the model. 0: the number in the design, or 2. */
  stages: number;
  /**
   * For a pipeline: the number of copies of the model. 0: as many as the tasks allow; 1: all tasks are stages of one
   * copy.
   */
  replicas: number;
  /**
   * The name of a device in `GET /hardware`, such as `A100`. Empty: the speed that the calibration measured, or
   * else the speed that the designer assumes.
   */
  device: string;
  precision: string;
  /**
   * The fraction of the device's peak performance that a step reaches, from 0 to 1. 0: the usual fraction
   * (`DeviceFigures.utilization`).
   */
  utilization: number;
  /**
   * The network between machines, by its name in `GET /hardware`, such as `25gbit`. Empty: `link`, the link of
   * the calibration, or 10 Gbit/s.
   */
  network: string;
  /** The transport over that network: `tcp` or `rdma`. */
  transport: string;
  /**
   * The network between the devices of one machine, by its name in `GET /hardware`. Empty: `pcie3`, or `memory`
   * for CPUs.
   */
  local: string;
  /**
   * The measured link between machines, such as from `jupyter dtf doctor --network`. Takes precedence over
   * `network`.
   */
  link: Link | null;
  /** The number of devices of each machine. 0: the number of devices of the design's largest host, or 1. */
  devices_per_machine: number;
  /** The throughput of each task's input pipeline, in examples per second; 0: it never delays a step. */
  input_examples_per_s: number;
  /**
   * The variation of a task's step times: their standard deviation divided by their mean. 0: the measured or a
   * typical value.
   */
  straggling: number;
  /**
   * Additional tasks are worthwhile if each of them adds at least this fraction of the throughput of a single
   * task.
   */
  threshold: number;
}

/** A design with a model, and the settings of one or more forecasts to compare. */
export interface ForecastRequest {
  design: Design;
  settings: ForecastSettings[];
}

/** The parts of one task's step, in seconds. All except `hidden_s` add up to the time of the step. */
export interface StepParts {
  /** Waiting for the next batch. */
  input_s: number;
  /** The forward and backward passes. */
  compute_s: number;
  /** Communication that overlaps with the backward pass and therefore costs no time. */
  hidden_s: number;
  /** Communication during which nothing is computed. */
  exposed_s: number;
  /** The optimizer's update of the variables. */
  update_s: number;
  /** Waiting for other tasks: the slowest task of a step, other stages of a pipeline, or a busy parameter server. */
  idle_s: number;
}

/** The forecast for one number of tasks. */
export interface ForecastPoint {
  /** The number of tasks that compute. */
  tasks: number;
  /** The number of additional `ps` tasks. */
  servers: number;
  /** The number of machines of the computing tasks. */
  machines: number;
  /** The number of examples per step over all tasks; in asynchronous training, per step of each task. */
  batch_size: number;
  step_seconds: number;
  parts: StepParts;
  examples_per_second: number;
  /** Examples per second if computation and network are slower than assumed. */
  low: number;
  /** Examples per second if computation and network are faster than assumed. */
  high: number;
  /** Examples per second if every task were as fast as a task that trains alone. */
  linear: number;
  /** `examples_per_second` divided by `linear`. */
  efficiency: number;
  /** The throughput added by each task since the previous point, as a fraction of the throughput of a single task. */
  marginal: number;
  /** Updates of the variables per second. */
  updates_per_second: number;
  /** The mean number of updates by other workers between a worker's fetch of the variables and its own update. */
  staleness: number;
  /** The fraction of gradients that are dropped because they arrive too late (backup workers). */
  dropped: number;
  /** The number of bytes that each task sends in a step. */
  sent_bytes: number;
  /** The memory needed by the device that needs the most, in bytes. */
  memory_bytes: number;
  /** The memory of a device, in bytes; 0 if unknown. */
  memory_limit_bytes: number;
  /**
   * The main cause of lost time: `exchange`, `input`, `waiting`, `servers` or `update`; empty if little
   * time is lost.
   */
  limit: string;
  /** The reason why this number of tasks would not work, such as too little memory or fewer examples than tasks. */
  problem: string;
}

/**
 * Examples per second for each number of tasks, with the parts of a step and their uncertainty.
 *
 * `show()` prints the whole forecast, and `frame()` returns a DataFrame with a row for each number of tasks.
 */
export interface Forecast {
  model: string;
  /** The requested settings, with all defaults filled in. */
  settings: ForecastSettings;
  /** The strategy in words, such as `all-reduce, ring, 25 Gbit/s Ethernet (TCP)`. */
  title: string;
  /** The source of the computation time: `calibration`, `published`, `run` or `assumed`. */
  source: string;
  /** The points, in order of their number of tasks. */
  points: ForecastPoint[];
  /**
   * The largest number of tasks in `points` up to which additional tasks are worthwhile; 0 if even the first number
   * is not worthwhile.
   */
  pays_until: number;
  /** A sentence that states up to how many tasks additional ones are worthwhile, and why not beyond that number. */
  why: string;
  /** The assumptions of the forecast. */
  notes: string[];
  problems: Problem[];
}

/** The target of a plan. Exactly one of the first three fields must be set. */
export interface ScaleTarget {
  examples_per_second: number;
  /** The hours within which to train on `examples`. */
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
  /**
   * The strategies to consider. Empty: all-reduce, synchronous parameter servers, and pipelines, with default
   * settings.
   */
  settings: ForecastSettings[];
}

/** The best plan with one strategy. */
export interface PlanOption {
  title: string;
  settings: ForecastSettings;
  reached: boolean;
  /** The point with the fewest tasks that reach the target, or else the point closest to it. */
  point: ForecastPoint;
  /** The hours that training on the target's examples takes; 0 if the target has no examples. */
  hours: number;
  device_hours: number;
  problem: string;
}

/** The plan with the fewest machines that reach a target, and plans with other strategies for comparison. */
export interface ScalePlan {
  target: ScaleTarget;
  reached: boolean;
  best: PlanOption;
  others: PlanOption[];
  /** A design with the cluster, the model, and the placement of a pipeline. Once saved, it opens in the designer. */
  design: Design | null;
  why: string;
}

/** One part of a run's step, compared with its forecast. */
export interface PartGap {
  /**
   * `input`, `compute`, `exchange`, `update` or `idle`; `step`, which is the total of these; or
   * `checkpoint`, which is not included in the total.
   */
  part: string;
  forecast_s: number;
  /** None if the run did not measure this part. */
  measured_s: number | null;
  /** A comment, such as `the exchange is not hidden`, or the reason why the part was not measured. */
  text: string;
}

/** The comparison of a run with its forecast. */
export interface EfficiencyReport {
  run: string;
  title: string;
  /** The number of tasks that computed. */
  tasks: number;
  /** The number of steps that were compared; 0: too few for a meaningful comparison. */
  steps: number;
  examples_per_second: number;
  forecast_examples_per_second: number;
  /**
   * The measured speed, as a fraction of the speed that the tasks would have if they never waited for each other;
   * None if unknown.
   */
  efficiency: number | null;
  gaps: PartGap[];
  /** The task for which the other tasks wait, if it is always the same one; otherwise empty. */
  slowest: string;
  /** Sentences about lost time, the most costly first. */
  findings: string[];
}

/** A run, identified by its id. `name` is kept in case the run is no longer in the store. */
export interface DashboardRun {
  id: string;
  name: string;
}

/** One plot: a metric with all its forms (`loss` with `epoch_loss` and `val_loss`), or one form alone. */
export interface DashboardPlot {
  metric: string;
  /** The weight of previous values in smoothing, from 0 to 0.98. */
  smoothing: number;
  /** Whether the vertical axis is logarithmic. */
  log: boolean;
}

/** A dashboard of chosen plots, each of which shows all chosen runs. */
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

/** The jobs that forms offer, in this order. */
export const USUAL_JOBS: readonly string[] = ['worker', 'ps', 'chief', 'evaluator'];

/** The jobs that train. Their tasks have the lowest ranks, in this order of jobs. */
export const FIRST_JOBS: readonly string[] = ['chief', 'worker'];

/** Jobs that hold variables or only evaluate: they have the highest ranks, and no GPU unless the user assigns one. */
export const CPU_JOBS: readonly string[] = ['ps', 'evaluator'];

export const MAX_TASKS_PER_JOB = 10000;

/** A regular expression that matches valid job names, which TensorFlow accepts between "/job:" and "/task:". */
export const JOB_NAME = /^[a-zA-Z][a-zA-Z0-9_]*$/;

/** A regular expression that matches valid names of clusters and templates. */
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

/** The all-reduce algorithms. */
export const FORECAST_ALGORITHMS: readonly string[] = ['auto', 'ring', 'hierarchical', 'tree'];

/** The precisions of computation. Not every device supports all of them. */
export const FORECAST_PRECISIONS: readonly string[] = ['fp32', 'tf32', 'bf16', 'fp16'];

/** The transports between machines. */
export const FORECAST_TRANSPORTS: readonly string[] = ['tcp', 'rdma'];

/** The types of gradient compression. */
export const FORECAST_COMPRESSIONS: readonly string[] = ['none', 'fp16', 'bf16'];

export const DESIGN_SUFFIX = '.dtf';

export const RUNS_DASHBOARD_SUFFIX = '.dtfplots';

/**
 * Metrics of a task's processes rather than of its model, and their units. The host measures the resources that the
 * processes use. The task reports the bytes that it sends to other machines of its run, and the fraction of each second
 * that it spends in exchanges.
 */
export const TASK_LOAD: Readonly<Record<string, string>> = {"cpu": "cores", "memory_bytes": "bytes", "network_bytes_per_second": "bytes_per_second", "network_seconds": "seconds"};

/**
 * Metrics of the parts of a task's training steps, and their units: seconds per step, averaged over the steps since the
 * last report. Reports are about one second apart. In this order: computing, which is the remainder; waiting for the
 * batch; exchanging with other tasks; the part of the exchange spent waiting for other tasks; snapshots for checkpoints.
 * All parts except the time spent waiting for other tasks add up to the time of the step. Parts that a strategy does not
 * measure are omitted, and count as computing.
 */
export const STEP_PARTS: Readonly<Record<string, string>> = {"step_compute_seconds": "seconds", "step_input_seconds": "seconds", "step_exchange_seconds": "seconds", "step_wait_seconds": "seconds", "step_checkpoint_seconds": "seconds"};

/**
 * The prefixes of a task's metrics about another task on another machine, with their units. The name of the other task
 * follows the prefix. The metrics are the number of bytes that are sent to that task in a step, and the seconds that
 * sending them takes. A slow link delays the sender.
 */
export const PAIR_LOAD: Readonly<Record<string, string>> = {"bytes_per_step_to_": "bytes", "seconds_per_step_to_": "seconds"};

/**
 * Metrics of the speed of training rather than the quality of the model. They are shown after the model's own
 * metrics.
 */
export const SPEED_METRICS: readonly string[] = ['learning_rate', 'examples_per_second', 'step_seconds'];

/** A regular expression for the names of metrics whose smaller values are better. Takes precedence over `MORE`. */
export const LESS_IS_BETTER_NAME = /loss|error|entropy|divergence|perplexity|hinge|(?:^|_)(?:mse|mae|mape|msle|rmse|nll|wer|cer|logcosh|poisson)(?:_|$)/;

/** A regular expression for the names of metrics whose larger values are better. */
export const MORE_IS_BETTER_NAME = /accuracy|precision|recall|score|similarity|correlation|sensitivity|specificity|reward|(?:^|_)(?:acc|auc|f1|fbeta|iou|io_u|dice|bleu|r2|map|psnr|ssim)(?:_|$)/;

/** The default values of fields that a document may omit. Copy them before changing any. */
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
  ForecastSettings: {"strategy": "", "tasks": [], "batch_size": 0, "per_device": 0, "algorithm": "auto", "compression": "none", "sync": false, "servers": 1, "backup_workers": 0, "microbatches": 0, "stages": 0, "replicas": 0, "device": "", "precision": "fp32", "utilization": 0.0, "network": "", "transport": "tcp", "local": "", "link": null, "devices_per_machine": 0, "input_examples_per_s": 0.0, "straggling": 0.0, "threshold": 0.5},
  ScaleTarget: {"examples_per_second": 0.0, "hours": 0.0, "device_hours": 0.0, "examples": 0.0},
  DashboardRun: {"name": ""},
  DashboardPlot: {"smoothing": 0.0, "log": false},
  RunsDashboard: {"version": 1, "title": "", "x": "step", "runs": [], "plots": []}
};

/** An event with its sequence number within its run, as sent over the socket. */
export type NumberedEvent = AnyEvent & { seq: number };
