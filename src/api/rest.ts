import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import type {
  Calibration,
  ClusterInfo,
  ClusterPatch,
  ClusterRequest,
  Design,
  DesignReport,
  EfficiencyReport,
  ExampleCopy,
  ErrorInfo,
  Forecast,
  ForecastRequest,
  ForecastSettings,
  Hardware,
  Histogram,
  KindInfo,
  LayerGraph,
  MachineSeries,
  MediaSeries,
  OutputPage,
  Picture,
  ReportedTable,
  ReportedText,
  Placement,
  PlanRequest,
  Preview,
  ResumeRequest,
  RunProfileRequest,
  RunInfo,
  RunPatch,
  SearchRequest,
  RunPlacement,
  ScalePlan,
  SeriesMessage,
  StatusInfo,
  Template,
  TraceData
} from './schema';

/** The path of the server extension's API, relative to the Jupyter server's base URL. */
export const API_PATH = 'jupyter-dtf/api';

/** The server refused a request; `field` names the offending part of the body, if there is one. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly kind: string = '',
    readonly field: string = ''
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** The REST routes, one method each. Every method rejects with ApiError or ServerConnection.NetworkError. */
export class RestApi {
  constructor(readonly settings: ServerConnection.ISettings) {}

  status(): Promise<StatusInfo> {
    return this._request('GET', ['status']);
  }

  kinds(): Promise<KindInfo[]> {
    return this._request('GET', ['kinds']);
  }

  startCluster(request: ClusterRequest): Promise<ClusterInfo> {
    return this._request('POST', ['clusters'], request);
  }

  previewCluster(request: ClusterRequest): Promise<Preview> {
    return this._request('POST', ['clusters', 'preview'], request);
  }

  scaleCluster(name: string, patch: ClusterPatch): Promise<ClusterInfo> {
    return this._request('PATCH', ['clusters', name], patch);
  }

  stopCluster(name: string): Promise<void> {
    return this._request('DELETE', ['clusters', name]);
  }

  /** Metrics of the machines of a cluster's hosts since `after`, in seconds since the epoch. */
  machines(name: string, after: number): Promise<MachineSeries[]> {
    const query = new URLSearchParams({ after: String(after) });
    return this._request('GET', ['clusters', name, 'machines'], undefined, undefined, query);
  }

  daskDashboard(name: string): Promise<{ url: string }> {
    return this._request('POST', ['clusters', name, 'dashboard'], {});
  }

  templates(): Promise<Template[]> {
    return this._request('GET', ['templates']);
  }

  keepTemplate(name: string, request: ClusterRequest): Promise<void> {
    return this._request('PUT', ['templates', name], request);
  }

  forgetTemplate(name: string): Promise<void> {
    return this._request('DELETE', ['templates', name]);
  }

  /** The names of the examples, notebooks first. */
  examples(): Promise<string[]> {
    return this._request('GET', ['examples']);
  }

  /** Copy an example into a folder below the server's root and return its path. */
  copyExample(name: string, folder: string): Promise<ExampleCopy> {
    return this._request('POST', ['examples', name], { folder });
  }

  runs(): Promise<RunInfo[]> {
    return this._request('GET', ['runs']);
  }

  /** Name, tag or annotate a run; archive, delete or restore it. */
  patchRun(id: string, patch: RunPatch): Promise<RunInfo> {
    return this._request('PATCH', ['runs', id], patch);
  }

  stopRun(id: string): Promise<void> {
    return this._request('POST', ['runs', id, 'stop'], {});
  }

  /** Ask the program that drives a search to stop it or to add trials. */
  askSearch(id: string, request: SearchRequest): Promise<void> {
    return this._request('POST', ['searches', id], request);
  }

  pauseRun(id: string): Promise<void> {
    return this._request('POST', ['runs', id, 'pause'], {});
  }

  continueRun(id: string): Promise<void> {
    return this._request('POST', ['runs', id, 'continue'], {});
  }

  /** Trace the next steps of an active run on all of its tasks. */
  profileRun(id: string, request: RunProfileRequest): Promise<void> {
    return this._request('POST', ['runs', id, 'profile'], request);
  }

  /** Resume a run as a new run on a cluster, from its newest checkpoint or the checkpoint of a given step. */
  resumeRun(id: string, request: ResumeRequest): Promise<RunInfo> {
    return this._request('POST', ['runs', id, 'resume'], request);
  }

  forgetRun(id: string): Promise<void> {
    return this._request('DELETE', ['runs', id]);
  }

  /** The lines of some metrics between two values of x, decimated for a plot of this `width` in pixels. */
  seriesPart(
    id: string,
    part: { metrics: string[]; start: number; end: number; width: number; x: string }
  ): Promise<SeriesMessage> {
    const { metrics, start, end, width, x } = part;
    const query = new URLSearchParams({
      metrics: JSON.stringify(metrics),
      start: String(start),
      end: String(end),
      width: String(width),
      x
    });
    return this._request('GET', ['runs', id, 'series'], undefined, undefined, query);
  }

  /** The histograms, images, texts and tables of a run. */
  media(id: string): Promise<MediaSeries[]> {
    return this._request('GET', ['runs', id, 'media']);
  }

  histograms(id: string, name: string, task: string): Promise<Histogram[]> {
    const query = new URLSearchParams({ name, task });
    return this._request('GET', ['runs', id, 'histograms'], undefined, undefined, query);
  }

  /** The text at a step, or the latest one before it. */
  text(id: string, name: string, task: string, step: number): Promise<ReportedText> {
    const query = new URLSearchParams({ name, task, step: String(step) });
    return this._request('GET', ['runs', id, 'text'], undefined, undefined, query);
  }

  /** The table at a step, or the latest one before it. */
  table(id: string, name: string, task: string, step: number): Promise<ReportedTable> {
    const query = new URLSearchParams({ name, task, step: String(step) });
    return this._request('GET', ['runs', id, 'table'], undefined, undefined, query);
  }

  /** The image at a step, or the latest one before it. */
  image(id: string, name: string, task: string, step: number): Promise<Picture> {
    const query = new URLSearchParams({ name, task, step: String(step) });
    return this._request('GET', ['runs', id, 'image'], undefined, undefined, query);
  }

  /** The operations and transfers in a run's traced steps. Rejects with status 404 if no steps were traced. */
  trace(id: string): Promise<TraceData> {
    return this._request('GET', ['runs', id, 'trace']);
  }

  /** A page of the output of a run's tasks, before or after a time; the last page if neither is given. */
  output(id: string, page: { before?: number; after?: number; task?: string }): Promise<OutputPage> {
    const query = new URLSearchParams();
    if (page.task) {
      query.set('task', page.task);
    }
    if (page.before !== undefined) {
      query.set('before_time', String(page.before));
    }
    if (page.after !== undefined) {
      query.set('after_time', String(page.after));
    }
    return this._request('GET', ['runs', id, 'output'], undefined, undefined, query);
  }

  /** The download URL of the output of one task, or of all tasks; with `find`, only of the lines that contain it. */
  outputUrl(id: string, task: string, find: string): string {
    return `${this._url(['runs', id, 'output.txt'])}?${new URLSearchParams({ task, find })}`;
  }

  /** The download URL of a run's whole trace in Chrome's trace format. */
  chromeTraceUrl(id: string): string {
    return this._url(['runs', id, 'chrome-trace.json']);
  }

  /** The cluster that a design with this text would create, and the problems in the design or its text. */
  checkDesign(text: string): Promise<DesignReport> {
    return this._request('POST', ['designs', 'check'], text);
  }

  /** Place the layers that have not been placed by hand. */
  placeDesign(design: Design, signal?: AbortSignal): Promise<Placement> {
    return this._request('POST', ['designs', 'place'], design, signal);
  }

  /** The layers of a `.keras` file or a SavedModel, given its path below the server's root. */
  describeModel(path: string, signal?: AbortSignal): Promise<LayerGraph> {
    return this._request('POST', ['designs', 'describe'], { path }, signal);
  }

  /** Measure a design's model on the tasks of a running cluster. */
  profileDesign(design: Design, cluster: string, signal?: AbortSignal): Promise<Calibration> {
    return this._request('POST', ['designs', 'profile'], { design, cluster }, signal);
  }

  /** A program in plain TensorFlow that trains the design's model with its placement. */
  scriptOf(design: Design): Promise<string> {
    return this._request('POST', ['designs', 'script'], design);
  }

  /** How a design's model would perform with other numbers of tasks: one forecast for each of the settings. */
  forecastDesign(request: ForecastRequest, signal?: AbortSignal): Promise<Forecast[]> {
    return this._request('POST', ['designs', 'forecast'], request, signal);
  }

  /** The smallest number of machines that reaches a target. */
  planDesign(request: PlanRequest, signal?: AbortSignal): Promise<ScalePlan> {
    return this._request('POST', ['designs', 'plan'], request, signal);
  }

  /** The devices and networks with built-in figures for forecasts. */
  hardware(): Promise<Hardware> {
    return this._request('GET', ['hardware']);
  }

  /**
   * How a run's program would perform with other numbers of tasks, based on its own steps. Rejects with status 409 if
   * the run has completed too few steps.
   */
  forecastRun(id: string, settings: ForecastSettings, signal?: AbortSignal): Promise<Forecast> {
    return this._request('POST', ['runs', id, 'forecast'], settings, signal);
  }

  /** A run's performance compared with its forecast. */
  efficiency(id: string): Promise<EfficiencyReport> {
    return this._request('GET', ['runs', id, 'efficiency']);
  }

  /** The planned and the actual placement of a run's layers. Rejects with status 404 if nothing was traced. */
  runPlacement(id: string): Promise<RunPlacement> {
    return this._request('GET', ['runs', id, 'placement']);
  }

  private _url(path: string[]): string {
    return URLExt.join(this.settings.baseUrl, API_PATH, ...path.map(encodeURIComponent));
  }

  private async _request<T>(
    method: Method,
    path: string[],
    body?: unknown,
    signal?: AbortSignal,
    query?: URLSearchParams
  ): Promise<T> {
    const url = query ? `${this._url(path)}?${query}` : this._url(path);
    const init: RequestInit = { method, ...(signal ? { signal } : {}) };
    if (body !== undefined) {
      init.body = typeof body === 'string' ? body : JSON.stringify(body); // a string is already JSON
      init.headers = { 'Content-Type': 'application/json' };
    }
    const response = await ServerConnection.makeRequest(url, init, this.settings);
    const text = await response.text();
    if (!response.ok) {
      throw readError(response, text);
    }
    return (text === '' ? undefined : JSON.parse(text)) as T;
  }
}

function readError(response: Response, text: string): ApiError {
  try {
    const info = JSON.parse(text) as Partial<ErrorInfo>;
    if (typeof info.message === 'string' && info.message !== '') {
      return new ApiError(info.message, response.status, info.error ?? '', info.field ?? '');
    }
  } catch {
    // Not a response of this extension: a proxy's page, or one from the Jupyter server itself.
  }
  return new ApiError(`${response.status} ${response.statusText}`.trim(), response.status);
}
