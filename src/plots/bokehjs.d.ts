declare module '@bokeh/bokehjs/build/js/bokeh.esm.min.js' {
  const main: unknown;
  export default main;
}

declare module '@bokeh/bokehjs/build/js/bokeh-api.esm.min.js' {
  const api: unknown;
  export default api;
}
