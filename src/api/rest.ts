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

/** Where the server extension answers, below the Jupyter server's base URL. */
export const API_PATH = 'jupyter-dtf/api';

/** The server refused a request; `field` names the part of the body that is meant, if one is. */
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

  /** How the machines of a cluster's hosts were since `after`, in seconds since the epoch. */
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

  /** Copy an example into a folder below the server's root; says where it is. */
  copyExample(name: string, folder: string): Promise<ExampleCopy> {
    return this._request('POST', ['examples', name], { folder });
  }

  runs(): Promise<RunInfo[]> {
    return this._request('GET', ['runs']);
  }

  /** Name, tag or note a run; archive it, delete it, or have it back. */
  patchRun(id: string, patch: RunPatch): Promise<RunInfo> {
    return this._request('PATCH', ['runs', id], patch);
  }

  stopRun(id: string): Promise<void> {
    return this._request('POST', ['runs', id, 'stop'], {});
  }

  /** Ask the program that drives a search to stop it, or to have more trials. */
  askSearch(id: string, request: SearchRequest): Promise<void> {
    return this._request('POST', ['searches', id], request);
  }

  pauseRun(id: string): Promise<void> {
    return this._request('POST', ['runs', id, 'pause'], {});
  }

  continueRun(id: string): Promise<void> {
    return this._request('POST', ['runs', id, 'continue'], {});
  }

  /** Have the next steps of a running run traced, on all its tasks. */
  profileRun(id: string, request: RunProfileRequest): Promise<void> {
    return this._request('POST', ['runs', id, 'profile'], request);
  }

  /** A new run that goes on with this one on a cluster, from its newest checkpoint or that of a step. */
  resumeRun(id: string, request: ResumeRequest): Promise<RunInfo> {
    return this._request('POST', ['runs', id, 'resume'], request);
  }

  forgetRun(id: string): Promise<void> {
    return this._request('DELETE', ['runs', id]);
  }

  /** The lines of some metrics between two values of x, as fine as the width asks for. */
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

  /** Which histograms, pictures, texts and tables there are of a run. */
  media(id: string): Promise<MediaSeries[]> {
    return this._request('GET', ['runs', id, 'media']);
  }

  histograms(id: string, name: string, task: string): Promise<Histogram[]> {
    const query = new URLSearchParams({ name, task });
    return this._request('GET', ['runs', id, 'histograms'], undefined, undefined, query);
  }

  /** The text of a step, or the last before it. */
  text(id: string, name: string, task: string, step: number): Promise<ReportedText> {
    const query = new URLSearchParams({ name, task, step: String(step) });
    return this._request('GET', ['runs', id, 'text'], undefined, undefined, query);
  }

  /** The table of a step, or the last before it. */
  table(id: string, name: string, task: string, step: number): Promise<ReportedTable> {
    const query = new URLSearchParams({ name, task, step: String(step) });
    return this._request('GET', ['runs', id, 'table'], undefined, undefined, query);
  }

  /** The picture of a step, or the last before it. */
  image(id: string, name: string, task: string, step: number): Promise<Picture> {
    const query = new URLSearchParams({ name, task, step: String(step) });
    return this._request('GET', ['runs', id, 'image'], undefined, undefined, query);
  }

  /** What ran where in a run's traced steps. Rejects with status 404 where none were. */
  trace(id: string): Promise<TraceData> {
    return this._request('GET', ['runs', id, 'trace']);
  }

  /** A page of what a run's tasks have printed: before or after a time, without either the end of it. */
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

  /** Where all that a task has printed, or all tasks, can be downloaded; with a text only lines that have it. */
  outputUrl(id: string, task: string, find: string): string {
    return `${this._url(['runs', id, 'output.txt'])}?${new URLSearchParams({ task, find })}`;
  }

  /** Where all of a run's trace is, in Chrome's trace format, to be downloaded. */
  chromeTraceUrl(id: string): string {
    return this._url(['runs', id, 'chrome-trace.json']);
  }

  /** What the design of this text would make, and what is wrong with it or with the text. */
  checkDesign(text: string): Promise<DesignReport> {
    return this._request('POST', ['designs', 'check'], text);
  }

  /** Where the layers go of which nobody said where. */
  placeDesign(design: Design, signal?: AbortSignal): Promise<Placement> {
    return this._request('POST', ['designs', 'place'], design, signal);
  }

  /** The layers of a `.keras` file or a SavedModel, by its path below the server's root. */
  describeModel(path: string, signal?: AbortSignal): Promise<LayerGraph> {
    return this._request('POST', ['designs', 'describe'], { path }, signal);
  }

  /** Measure a design's model on the tasks of a running cluster. */
  profileDesign(design: Design, cluster: string, signal?: AbortSignal): Promise<Calibration> {
    return this._request('POST', ['designs', 'profile'], { design, cluster }, signal);
  }

  /** A program in plain TensorFlow that trains the design's model as it is placed. */
  scriptOf(design: Design): Promise<string> {
    return this._request('POST', ['designs', 'script'], design);
  }

  /** What a design's model would do on other numbers of tasks, one forecast for each of the settings. */
  forecastDesign(request: ForecastRequest, signal?: AbortSignal): Promise<Forecast[]> {
    return this._request('POST', ['designs', 'forecast'], request, signal);
  }

  /** The fewest machines that reach a target. */
  planDesign(request: PlanRequest, signal?: AbortSignal): Promise<ScalePlan> {
    return this._request('POST', ['designs', 'plan'], request, signal);
  }

  /** The devices and networks that a forecast knows by name. */
  hardware(): Promise<Hardware> {
    return this._request('GET', ['hardware']);
  }

  /** What a run's program would do on other numbers of tasks, from its own steps. Rejects with status 409 where it has too few. */
  forecastRun(id: string, settings: ForecastSettings, signal?: AbortSignal): Promise<Forecast> {
    return this._request('POST', ['runs', id, 'forecast'], settings, signal);
  }

  /** What a run did beside what was forecast for it. */
  efficiency(id: string): Promise<EfficiencyReport> {
    return this._request('GET', ['runs', id, 'efficiency']);
  }

  /** Where the layers of a run were to be, and where they were. Rejects with status 404 where nothing was traced. */
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
      init.body = typeof body === 'string' ? body : JSON.stringify(body); // a string is JSON already
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
    // Not this extension's answer: a proxy's page, or the server's own.
  }
  return new ApiError(`${response.status} ${response.statusText}`.trim(), response.status);
}
