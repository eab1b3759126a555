/**
 * BokehJS, loaded when the first plot is drawn. This is the only module that imports it.
 *
 * It uses the bundled builds rather than the package's entry point: with native class fields, the modules of `lib/`
 * create models whose properties are undefined.
 */

/** The part of a Bokeh model that is used here. */
export interface Model {
  setv(properties: Record<string, unknown>): void;
  on_event(name: string, callback: (event: { x0?: number; x1?: number }) => void): void;
}

export interface Source extends Model {
  data: Record<string, Float64Array>;
}

export interface Range extends Model {
  start: number;
  end: number;
}

export interface Formatter extends Model {
  doFormat: (ticks: number[], options: unknown) => string[];
}

export interface GlyphRenderer extends Model {
  glyph: Model;
}

export interface Axis extends Model {
  ticker: Model;
}

export interface Toolbar extends Model {
  tools: Model[];
}

export interface Figure extends Model {
  toolbar: Toolbar;
  xaxes: Axis[];
  yaxes: Axis[];
  xgrids: Model[];
  ygrids: Model[];
  line(options: Record<string, unknown>): GlyphRenderer;
  scatter(options: Record<string, unknown>): GlyphRenderer;
  varea(options: Record<string, unknown>): GlyphRenderer;
  segment(options: Record<string, unknown>): GlyphRenderer;
  add_layout(renderer: Model): void;
}

export interface BokehDocument {
  config: Model;
  add_root(model: Model): void;
  clear(): void;
}

/** The position of a plot's frame, in pixels of its element. */
export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface PlotView {
  frame: { bbox: Box };
  export(type: 'png'): { canvas: HTMLCanvasElement };
  export(type: 'svg'): { to_blob(): Promise<Blob> };
}

type New<T> = new (properties?: Record<string, unknown>) => T;

export interface BokehApi {
  /** Every document ever created; remove one when done with it. */
  documents: BokehDocument[];
  Document: new () => BokehDocument;
  Plotting: { figure(options: Record<string, unknown>): Figure };
  Range1d: New<Range>;
  ColumnDataSource: New<Source>;
  Span: New<Model>;
  BoxAnnotation: New<Model>;
  LinearScale: New<Model>;
  AdaptiveTicker: New<Model>;
  FixedTicker: New<Model>;
  BasicTickFormatter: New<Formatter>;
  set_log_level(level: string): void;
  embed: {
    add_document_standalone(
      document: BokehDocument,
      element: HTMLElement,
      roots: (HTMLElement | null)[]
    ): Promise<{ get(model: Model): PlotView | null }>;
  };
}

export async function loadBokeh(): Promise<BokehApi> {
  const main = (await import('@bokeh/bokehjs/build/js/bokeh.esm.min.js')).default as BokehApi;
  await import('@bokeh/bokehjs/build/js/bokeh-api.esm.min.js'); // adds its exports to those of the main bundle
  main.set_log_level('warn');
  listenWhileShown(main);
  return main;
}

/** The part of a plot's view that is used here. */
interface ViewClass {
  connect_signals(this: { removed: { connect(slot: () => void): void } }): void;
}

/**
 * Bokeh's plots listen to `visualViewport` and never stop, which keeps them in memory: remove the listener with the
 * plot.
 */
function listenWhileShown(bokeh: BokehApi): void {
  const { default_view: view } = bokeh.Plotting.figure({}) as unknown as { default_view: { prototype: ViewClass } };
  const connect = view.prototype.connect_signals;
  view.prototype.connect_signals = function () {
    const { visualViewport } = window;
    const shown = new AbortController();
    if (visualViewport) {
      // An own property that is deleted again: it shadows the browser's method only temporarily.
      visualViewport.addEventListener = (type: string, listener: EventListenerOrEventListenerObject) =>
        EventTarget.prototype.addEventListener.call(visualViewport, type, listener, { signal: shown.signal });
    }
    try {
      connect.call(this);
    } finally {
      if (visualViewport) {
        delete (visualViewport as Partial<VisualViewport>).addEventListener;
      }
    }
    this.removed.connect(() => shown.abort());
  };
}
