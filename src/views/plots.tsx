import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { RunModel } from '../model/run';
import type { GridOptions, PlotGrid } from '../plots/grid';

/** The plots of a run. Bokeh draws them; React only holds their place. */
export function Plots(props: {
  model: RunModel;
  options: GridOptions;
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { model, options, themeChanged, trans } = props;
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
    const words = { train: trans.__('train'), validation: trans.__('val'), mean: trans.__('mean') };
    import('../plots/grid')
      .then(({ PlotGrid }) =>
        gone ? null : PlotGrid.create(host.current!, model, latest.current, words, themeChanged)
      )
      .then(made => {
        if (gone) {
          made?.dispose();
        } else {
          grid.current = made;
          made?.setOptions(latest.current);
        }
      })
      .catch((error: unknown) => setProblem(String(error)));
    return () => {
      gone = true;
      grid.current?.dispose();
      grid.current = null;
    };
  }, [model, themeChanged, trans]);

  return (
    <>
      {problem !== '' && <p className="jp-dtf-problem">{trans.__('The plots could not be loaded: %1', problem)}</p>}
      <div ref={host} className="jp-dtf-plots" />
    </>
  );
}
