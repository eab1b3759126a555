import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { PlotChoices } from '../model/plotchoices';
import type { ShownAxis } from '../model/shownaxis';
import type { GridOptions, PlotGrid } from '../plots/grid';
import type { PlotSource } from '../plots/plotsource';

/** The plots of a source. Bokeh draws them; React only provides the host element. */
export function Plots(props: {
  source: PlotSource;
  choices: PlotChoices;
  options: GridOptions;
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { source, choices, options, themeChanged, trans } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const grid = React.useRef<PlotGrid | null>(null);
  const latest = React.useRef(options);
  const [problem, setProblem] = React.useState('');

  React.useEffect(() => {
    latest.current = options;
    grid.current?.setOptions(options);
  }, [options]);

  React.useEffect(() => {
    let gone = false;
    const onProblem = (error: unknown) => !gone && setProblem(String(error));
    const words = {
      phases: {
        training: trans.__('training'),
        batch: trans.__('batch'),
        running: trans.__('epoch so far'),
        epoch: trans.__('epoch'),
        validation: trans.__('validation')
      },
      mean: trans.__('mean'),
      range: trans.__('range'),
      rangeOf: (tasks: number) => trans._n('the value of %1 task', 'from the lowest to the highest of %1 tasks', tasks),
      x: (axis: ShownAxis) =>
        ({
          step: trans.__('step'),
          epoch: trans.__('epoch'),
          examples: trans.__('examples'),
          time: trans.__('time since the start'),
          wall: trans.__('time of day')
        })[axis],
      cores: (metric: string) => trans.__('%1 (cores)', metric),
      move: (metric: string) => trans.__('Move %1 by dragging, instead of selecting a range', metric),
      reset: (metric: string) => trans.__('Show all of %1 again', metric),
      save: (metric: string) => trans.__('Save %1', metric),
      saveAs: (format: string) =>
        format === 'csv' ? trans.__('Plot data as CSV') : trans.__('Image as %1', format.toUpperCase()),
      again: (first: number, last: number) => trans.__('steps %1 to %2 were done a second time', first, last),
      slow: trans.__('slow'),
      hide: trans.__('Hide or show in all plots; with Shift, show only this one'),
      pin: (metric: string) => trans.__('Keep %1 on top', metric),
      unpin: (metric: string) => trans.__('Do not keep %1 on top (Alt and the arrow keys move it)', metric),
      values: (metric: string) => trans.__('Values of %1: move along the lines with the arrow keys', metric),
      count: (plots: number) => trans._n('%1 plot', '%1 plots', plots),
      rest: trans.__('Other metrics')
    };
    import('../plots/grid')
      .then(({ PlotGrid }) => {
        if (!gone) {
          const parts = { host: host.current!, source, choices, words, themeChanged, onProblem };
          grid.current = new PlotGrid(parts, latest.current);
        }
      })
      .catch(onProblem);
    return () => {
      gone = true;
      grid.current?.dispose();
      grid.current = null;
    };
  }, [source, choices, themeChanged, trans]);

  return (
    <>
      {problem !== '' && <p className="jp-dtf-problem">{trans.__('The plots could not be loaded: %1', problem)}</p>}
      <div ref={host} className="jp-dtf-plots" />
    </>
  );
}
