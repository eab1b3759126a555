/** The area between the minimum and the maximum of several lines. Pure. */

/** A line, or a member of a band. */
export interface Curve {
  x: Float64Array;
  y: Float64Array;
}

export interface Band {
  x: Float64Array;
  low: Float64Array;
  high: Float64Array;
}

// Number of points that a plot can use: its frame is rarely wider in pixels.
const MOST_EDGES = 400;

/**
 * The band between the minimum and maximum of `curves`. It contains all of their points, including those between two of
 * its edges.
 */
export function bandOf(curves: readonly Curve[]): Band {
  const edges = edgesOf(curves);
  const low = new Float64Array(edges.length).fill(Infinity);
  const high = new Float64Array(edges.length).fill(-Infinity);
  const take = (index: number, value: number) => {
    if (index >= 0 && index < edges.length && Number.isFinite(value)) {
      low[index] = Math.min(low[index]!, value);
      high[index] = Math.max(high[index]!, value);
    }
  };
  for (const { x, y } of curves) {
    let edge = 0;
    for (let i = 0; i < x.length; i++) {
      while (edge < edges.length && edges[edge]! < x[i]!) {
        // This edge lies between the previous point and this one.
        if (i > 0) {
          take(edge, between(x[i - 1]!, y[i - 1]!, x[i]!, y[i]!, edges[edge]!));
        }
        edge += 1;
      }
      take(edge, y[i]!);
      if (edges[edge] !== x[i]) {
        take(edge - 1, y[i]!);
      }
    }
  }
  const known = [...edges.keys()].filter(index => low[index]! <= high[index]!);
  const only = (values: Float64Array) => Float64Array.from(known, index => values[index]!);
  return { x: only(edges), low: only(low), high: only(high) };
}

/** All x values of the curves, ascending, thinned to a visible resolution. */
function edgesOf(curves: readonly Curve[]): Float64Array {
  const all = new Set<number>();
  curves.forEach(({ x }) => x.forEach(value => all.add(value)));
  const sorted = Float64Array.from(all).sort();
  const step = Math.ceil(sorted.length / MOST_EDGES);
  return step <= 1 ? sorted : sorted.filter((_, index) => index % step === 0 || index === sorted.length - 1);
}

function between(x0: number, y0: number, x1: number, y1: number, at: number): number {
  return x1 === x0 ? y1 : y0 + ((at - x0) / (x1 - x0)) * (y1 - y0);
}
