import type { BokehApi, Figure, Model } from './bokeh';

/** A mark on a plot. */
export interface PlacedMark {
  x: number | null;
  /** A text that describes the mark. */
  label: string;
  colour: string;
}

/** The marks of a figure: vertical lines across the whole plot. */
export class PlacedMarks {
  constructor(
    private readonly _bokeh: BokehApi,
    private readonly _figure: Figure
  ) {}

  /** Show these marks; there are never fewer than before. */
  update(marks: readonly PlacedMark[]): void {
    this._placed = marks;
    marks.forEach(({ x, colour }, index) => {
      let span = this._marks[index];
      if (!span) {
        span = new this._bokeh.Span({ dimension: 'height', line_dash: [4, 4], line_width: 1.5 });
        this._marks[index] = span;
        this._figure.add_layout(span);
      }
      const stamp = `${x}|${colour}`;
      if (this._marked[index] !== stamp) {
        this._marked[index] = stamp;
        span.setv({ location: x, visible: x !== null, line_color: colour });
      }
    });
  }

  /** The labels of the marks in a range. */
  between(start: number, end: number): string[] {
    return this._placed.filter(({ x }) => x !== null && x >= start && x <= end).map(({ label }) => label);
  }

  private _placed: readonly PlacedMark[] = [];
  private readonly _marks: Model[] = [];
  private readonly _marked: string[] = [];
}
