import type { ReplacedLine } from '../model/series';
import type { BokehApi, Figure, GlyphRenderer, Source } from './bokeh';
import type { Legend } from './legend';
import { empty, extent } from './lineprocessing';
import type { PlotLine } from './metricplots';
import type { Band } from './minmaxband';

// Opacity of the raw values behind their average.
const RAW = 0.25;
// Opacity of values that were later replaced.
const REPLACED = 0.5;
// Opacity of lines other than the one pointed at in the legend.
const BEHIND = 0.15;

const AT = { x: { field: 'x' }, y: { field: 'y' } };

/** The band of a mean, with the element of the legend that has its limits, and their text there. */
export interface DrawnBand {
  source: Source;
  glyph: GlyphRenderer;
  area: Band;
  value: HTMLElement;
  shown: string;
}

/** A line with its glyphs, which are created when they are needed, and its value in the legend. */
export interface Drawn {
  source: Source;
  band: DrawnBand | null;
  raw: Source | null;
  few: Source | null;
  renderers: GlyphRenderer[];
  dots: GlyphRenderer | null;
  line: PlotLine;
  /** The color of its task; null: that of the theme's text. */
  colour: string | null;
  y: Float64Array;
  stamp: string;
  value: HTMLElement;
  shown: string;
}

/** A line of earlier values with its glyph. */
export interface Replaced {
  task: string;
  /** As for a line. */
  colour: string | null;
  source: Source;
  glyph: GlyphRenderer;
  x: Float64Array;
  y: Float64Array;
  stamp: string;
}

/** The glyphs of a plot's lines. */
export class FigureLines {
  /** The lines, by their keys. */
  readonly drawn = new Map<string, Drawn>();
  /** The lines of earlier values, by their names. */
  readonly replaced = new Map<string, Replaced>();

  constructor(
    private readonly _bokeh: BokehApi,
    private readonly _figure: Figure,
    private readonly _legend: Legend,
    private readonly _log: boolean
  ) {}

  /** Add a line and its entry in the legend; both have no values yet. */
  add(line: PlotLine, colours: ReadonlyMap<string, string>): Drawn {
    const colour = colours.get(line.task) ?? null;
    const source = new this._bokeh.ColumnDataSource({ data: empty() });
    const value = this._legend.add(line, colour);
    value.append(document.createTextNode(''));
    const made: Drawn = {
      source,
      band: null,
      raw: null,
      few: null,
      renderers: line.phase === 'epoch' ? [] : [this._draw(source, colour, 1, 1.5, line.validation)],
      dots: null,
      line,
      colour,
      y: line.y,
      stamp: '',
      value,
      shown: ''
    };
    this.drawn.set(line.key, made);
    return made;
  }

  /** Add a line of earlier values, which has no points yet. */
  addReplaced({ name, task, x, y }: ReplacedLine, colours: ReadonlyMap<string, string>): Replaced {
    const source = new this._bokeh.ColumnDataSource({ data: empty() });
    const colour = colours.get(task) ?? null;
    const glyph = this._draw(source, colour, REPLACED, 1, [2, 3]);
    const made: Replaced = { task, colour, source, glyph, x, y, stamp: '' };
    this.replaced.set(name, made);
    return made;
  }

  /** Show the band of a mean from the lowest to the highest of its tasks. */
  showBand(drawn: Drawn, area: Band): void {
    const log = this._log;
    if (!drawn.band) {
      const source = new this._bokeh.ColumnDataSource({ data: { x: area.x, y1: area.low, y2: area.high } });
      const glyph = this._figure.varea({
        x: { field: 'x' },
        y1: { field: 'y1' },
        y2: { field: 'y2' },
        source,
        fill_color: drawn.colour ?? this._colour,
        fill_alpha: BEHIND,
        level: 'underlay'
      });
      const value = this._legend.addBand(drawn.line);
      value.append(document.createTextNode(''));
      drawn.band = { source, glyph, area, value, shown: '' };
    }
    drawn.band.area = area;
    // An area cannot have gaps: on a logarithmic axis it ends at the lowest value that can be drawn.
    const least = log ? (extent([area.high, area.low], true)?.[0] ?? 1) : 0;
    const floor = (values: Float64Array) => (log ? values.map(value => Math.max(value, least)) : values);
    drawn.band.source.data = { x: area.x, y1: floor(area.low), y2: floor(area.high) };
  }

  /** Add the raw line behind its average. Created when the line is first smoothed, since each glyph costs time. */
  addRaw({ colour, renderers }: Drawn): Source {
    const source = new this._bokeh.ColumnDataSource({ data: empty() });
    renderers.push(this._draw(source, colour, RAW, 1, false));
    return source;
  }

  /** Add the markers of a line of few points, or of one without a connecting line. */
  addDots(drawn: Drawn): Source {
    const source = new this._bokeh.ColumnDataSource({ data: empty() });
    const colour = drawn.colour ?? this._colour;
    const size = drawn.line.phase === 'epoch' ? 8 : 4;
    drawn.dots = this._figure.scatter({ ...AT, source, size, line_color: colour, fill_color: colour });
    return source;
  }

  /** Hide exactly the lines of these tasks. */
  setHidden(hidden: ReadonlySet<string>): void {
    for (const { line, renderers, dots, band } of this.drawn.values()) {
      const visible = !hidden.has(line.task);
      [...renderers, dots, band?.glyph].forEach(renderer => renderer?.setv({ visible }));
    }
    for (const { task, glyph } of this.replaced.values()) {
      glyph.setv({ visible: !hidden.has(task) });
    }
  }

  /** Set the color of lines that have none of their own. */
  setColour(text: string): void {
    this._colour = text;
    for (const { colour, renderers, dots, band } of this.drawn.values()) {
      if (colour === null) {
        band?.glyph.glyph.setv({ fill_color: text });
        renderers.forEach(({ glyph }) => glyph.setv({ line_color: text }));
        dots?.glyph.setv({ line_color: text, fill_color: text });
      }
    }
    for (const { colour, glyph } of this.replaced.values()) {
      if (colour === null) {
        glyph.glyph.setv({ line_color: text });
      }
    }
  }

  /** Fade all tasks but `task`; null: none. */
  stress(task: string | null): void {
    for (const { line, renderers, dots } of this.drawn.values()) {
      const share = task === null || line.task === task ? 1 : BEHIND;
      renderers.forEach(({ glyph }, index) => glyph.setv({ line_alpha: share * (index === 0 ? 1 : RAW) }));
      dots?.glyph.setv({ line_alpha: share, fill_alpha: share });
    }
    for (const { task: whose, glyph } of this.replaced.values()) {
      glyph.glyph.setv({ line_alpha: REPLACED * (task === null || whose === task ? 1 : BEHIND) });
    }
  }

  private _draw(
    source: Source,
    colour: string | null,
    alpha: number,
    width: number,
    dash: boolean | [number, number]
  ): GlyphRenderer {
    return this._figure.line({
      ...AT,
      source,
      line_color: colour ?? this._colour,
      line_alpha: alpha,
      line_width: width,
      line_dash: dash === true ? [6, 3] : dash || 'solid',
      line_join: 'round',
      level: alpha < 1 ? 'underlay' : 'glyph'
    });
  }

  private _colour = '';
}
