/** JupyterLab's colours and type, as the canvas of a plot needs them. */
export interface PlotTheme {
  text: string;
  faint: string;
  font: string;
  fontSize: string;
  error: string;
}

/** Read the theme's variables where the plots stand. */
export function readTheme(element: Element): PlotTheme {
  const style = getComputedStyle(element);
  const read = (name: string, otherwise: string) => style.getPropertyValue(name).trim() || otherwise;
  return {
    text: read('--jp-ui-font-color1', '#212121'),
    faint: read('--jp-border-color2', '#e0e0e0'),
    font: read('--jp-ui-font-family', 'system-ui, sans-serif'),
    fontSize: read('--jp-ui-font-size0', '11px'),
    error: read('--jp-error-color1', '#d32f2f')
  };
}
