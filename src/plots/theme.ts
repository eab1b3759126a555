/** JupyterLab's colors and fonts, as a plot's canvas needs them. */
export interface PlotTheme {
  text: string;
  /** Color of secondary text. */
  soft: string;
  faint: string;
  ground: string;
  font: string;
  fontSize: string;
  error: string;
}

/** Read the theme's CSS variables at the position of an element. */
export function readTheme(element: Element): PlotTheme {
  const style = getComputedStyle(element);
  const read = (name: string, otherwise: string) => style.getPropertyValue(name).trim() || otherwise;
  return {
    text: read('--jp-ui-font-color1', '#212121'),
    soft: read('--jp-ui-font-color2', '#616161'),
    faint: read('--jp-border-color2', '#e0e0e0'),
    ground: read('--jp-layout-color1', '#ffffff'),
    font: read('--jp-ui-font-family', 'system-ui, sans-serif'),
    fontSize: read('--jp-ui-font-size0', '11px'),
    error: read('--jp-error-color1', '#d32f2f')
  };
}
