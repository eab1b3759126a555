import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { RunsDashboard } from '../../api/schema';
import type { PlotChoices } from '../../model/plotchoices';
import type { PreferenceValues } from '../../model/preferences';
import type { RunModel, XAxis } from '../../model/run';
import { emptyDashboard } from '../../model/runsdashboardtext';
import { ComparedRuns } from '../../plots/comparedruns';
import { chosenPlots } from '../../plots/chosenplot';
import { SmallButton } from '../controls';
import { useSignals } from '../hooks';
import { Plots } from '../plots';

/** The plots of several runs, one line for each run. */
export function Overlay(props: {
  models: readonly RunModel[];
  titles: readonly string[];
  preferences: Readonly<PreferenceValues>;
  choices: PlotChoices;
  themeChanged: ISignal<unknown, unknown> | null;
  /** Save the current view as a file. */
  onSave: (dashboard: RunsDashboard) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { models, titles, preferences, choices, themeChanged, onSave, trans } = props;
  const [x, setX] = React.useState<XAxis>('step');
  const [smoothing, setSmoothing] = React.useState(preferences.smoothing);
  const [log, setLog] = React.useState(preferences.logScale);
  const [filter, setFilter] = React.useState('');
  const rate = preferences.updatesPerSecond;
  useSignals(choices.changed, ...models.map(model => model.metricsChanged));
  React.useEffect(() => {
    models.forEach(model => {
      model.setX(x);
      model.acquire();
    });
    return () => models.forEach(model => model.release());
  }, [models, x]);
  const source = React.useMemo(
    () =>
      new ComparedRuns(
        models.map((model, index) => ({ model, title: titles[index]! })),
        x
      ),
    [models, titles, x]
  );
  const options = React.useMemo(
    () => ({ tasks: 'each' as const, smoothing, log, filter, rate }),
    [smoothing, log, filter, rate]
  );
  return (
    <div className="jp-dtf-metrics">
      <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Plots')}>
        <label>
          {trans.__('x')}
          <select value={x} onChange={event => setX(event.target.value as XAxis)}>
            <option value="step">{trans.__('step')}</option>
            <option value="time">{trans.__('time')}</option>
          </select>
        </label>
        <label>
          {trans.__('smooth')}
          <input
            type="range"
            min={0}
            max={0.98}
            step={0.02}
            value={smoothing}
            aria-valuetext={smoothing.toFixed(2)}
            onChange={event => setSmoothing(Number(event.target.value))}
          />
        </label>
        <label>
          <input type="checkbox" checked={log} onChange={event => setLog(event.target.checked)} />
          {trans.__('log')}
        </label>
        <input
          type="search"
          className="jp-dtf-search jp-dtf-filter"
          aria-label={trans.__('Filter metrics by words or regular expressions')}
          placeholder={trans.__('Filter')}
          value={filter}
          onChange={event => setFilter(event.target.value)}
          onKeyDown={event => event.key === 'Escape' && setFilter('')}
        />
        <SmallButton
          hint={trans.__('Save these runs and plots in a .dtfplots file, starting with the plots kept on top')}
          onClick={() =>
            onSave({
              ...emptyDashboard(),
              x,
              runs: models.map(({ id, info }) => ({ id, name: info.name })),
              plots: chosenPlots(source, filter, choices.pinned).map(metric => ({ metric, smoothing, log }))
            })
          }
        >
          {trans.__('Save as dashboard file')}
        </SmallButton>
      </div>
      <Plots source={source} choices={choices} options={options} themeChanged={themeChanged} trans={trans} />
    </div>
  );
}
