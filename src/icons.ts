import { LabIcon } from '@jupyterlab/ui-components';

/** One task above and two below, connected: a cluster. */
export const dtfIcon = new LabIcon({
  name: 'jupyter_dtf:cluster',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 22 22">
  <g class="jp-icon3" fill="#616161">
    <rect x="8" y="2.5" width="6" height="5.5" rx="1.2"/>
    <rect x="2" y="14" width="6" height="5.5" rx="1.2"/>
    <rect x="14" y="14" width="6" height="5.5" rx="1.2"/>
    <path d="M10.3 8h1.4v2.3h6V14h-1.4v-2.3H5.7V14H4.3v-3.7h6z"/>
  </g>
</svg>`
});

/** A falling loss curve between its axes. */
export const runIcon = new LabIcon({
  name: 'jupyter_dtf:run',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 22 22">
  <path class="jp-icon-dtf-axis" fill="none" stroke="#616161" stroke-width="1.6" d="M3.5 3v15.5H19"/>
  <path fill="none" stroke="#e69f00" stroke-width="2" d="M6 5c1.5 7 4 9.5 12 10.5"/>
</svg>`
});

/** The layers of a model on a device, as the designer draws them. */
export const designIcon = new LabIcon({
  name: 'jupyter_dtf:design',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 22 22">
  <g class="jp-icon3" fill="#616161">
    <path fill-rule="evenodd" d="M3 2.5h16a1 1 0 0 1 1 1v15a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1v-15a1 1 0 0 1 1-1zm.8 1.8v13.4h14.4V4.3z"/>
  </g>
  <rect x="5.8" y="6.3" width="4.6" height="3.6" rx=".8" fill="#0072b2"/>
  <rect x="11.8" y="6.3" width="4.6" height="3.6" rx=".8" fill="#e69f00"/>
  <rect x="5.8" y="12" width="10.6" height="3.6" rx=".8" fill="#009e73"/>
</svg>`
});
