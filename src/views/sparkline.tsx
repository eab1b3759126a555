import React from 'react';

const WIDTH = 60;
const HEIGHT = 16;

/** The points of a polyline through `values`, oldest on the left, within the sparkline's box. */
export function sparklinePoints(values: readonly number[]): string {
  const finite = values.filter(Number.isFinite);
  if (finite.length < 2) {
    return '';
  }
  const low = Math.min(...finite);
  const span = Math.max(...finite) - low || 1;
  const dx = (WIDTH - 2) / (finite.length - 1);
  return finite
    .map((value, i) => `${(1 + i * dx).toFixed(1)},${(HEIGHT - 2 - ((value - low) / span) * (HEIGHT - 4)).toFixed(1)}`)
    .join(' ');
}

/** A few values as a line without axes: it shows the trend, not the values. */
export function Sparkline(props: { values: readonly number[]; label: string }): React.ReactElement {
  return (
    <svg className="jp-dtf-sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={props.label}>
      <polyline points={sparklinePoints(props.values)} />
    </svg>
  );
}
