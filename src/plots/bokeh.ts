/**
 * BokehJS, loaded when the first plot is drawn. This is the only module that imports it.
 *
 * The bundled builds and not the package's own entry: under native class fields the modules of `lib/` make models whose
 * properties are undefined.
 */

/** The little of a Bokeh model that is used here. */
export interface Model {
  setv(properties: Record<string, unknown>): void;
  on_event(name: string, callback: (event: { x?: number | null }) => void): void;
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

export interface Figure extends Model {
  toolbar: Model;
  xaxes: Axis[];
  yaxes: Axis[];
  xgrids: Model[];
  ygrids: Model[];
  line(options: Record<string, unknown>): GlyphRenderer;
  scatter(options: Record<string, unknown>): GlyphRenderer;
  add_layout(renderer: Model): void;
}

export interface BokehDocument {
  add_root(model: Model): void;
  remove_root(model: Model): void;
  clear(): void;
}

type New<T> = new (properties?: Record<string, unknown>) => T;

export interface BokehApi {
  Document: new () => BokehDocument;
  Plotting: { figure(options: Record<string, unknown>): Figure };
  Range1d: New<Range>;
  ColumnDataSource: New<Source>;
  Span: New<Model>;
  AdaptiveTicker: New<Model>;
  BasicTickFormatter: New<Formatter>;
  set_log_level(level: string): void;
  embed: {
    add_document_standalone(
      document: BokehDocument,
      element: HTMLElement,
      roots: (HTMLElement | null)[]
    ): Promise<unknown>;
  };
}

export async function loadBokeh(): Promise<BokehApi> {
  const main = (await import('@bokeh/bokehjs/build/js/bokeh.esm.min.js')).default as BokehApi;
  await import('@bokeh/bokehjs/build/js/bokeh-api.esm.min.js'); // adds its names to main
  main.set_log_level('warn');
  return main;
}
