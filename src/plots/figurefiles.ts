/** Exports a figure to files. */

import type { PlotView } from './bokeh';

/** The plot without its legend as a bitmap, with this background. */
export function pictureOf(view: PlotView | null, ground: string): HTMLCanvasElement | null {
  const drawn = view?.export('png').canvas;
  const canvas = document.createElement('canvas');
  const context = canvas.getContext('2d');
  if (!drawn || !context) {
    return null;
  }
  [canvas.width, canvas.height] = [drawn.width, drawn.height];
  context.fillStyle = ground;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(drawn, 0, 0);
  return canvas;
}

/** The plot without its legend as an SVG, with this background. */
export async function drawingOf(view: PlotView | null, ground: string): Promise<Blob | null> {
  const drawn = await view?.export('svg').to_blob();
  if (!drawn) {
    return null;
  }
  const behind = `<rect width="100%" height="100%" fill="${ground}"/>`;
  return new Blob([(await drawn.text()).replace(/<svg[^>]*>/, tag => tag + behind)], { type: 'image/svg+xml' });
}
