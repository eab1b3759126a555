import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import { formatClock } from '../model/format';
import type { PlotChoices } from '../model/plotchoices';
import type { PreferenceValues } from '../model/preferences';
import { markText } from '../model/runmarks';
import type { RunModel, ShownAxis } from '../model/run';
import { isFinal } from '../model/runstate';
import { arrange, keysOf } from '../plots/plotarrangement';
import { filterOf } from '../plots/plotfilter';
import { plotsOf, TaskMode } from '../plots/metricplots';
import { taskColours } from '../plots/palette';
import { RunPlots } from '../plots/runplots';
import { useSignals } from './hooks';
import { Plots } from './plots';

/** The plots of a run's metrics, with their settings. */
export function Metrics(props: {
  model: RunModel;
  preferences: Readonly<PreferenceValues>;
  choices: PlotChoices;
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { model, preferences, choices, trans } = props;
  useSignals(model.infoChanged, model.storyChanged, model.metricsChanged, choices.changed);
  // Until the user makes a choice here, the preferences apply. They may be loaded after this is shown.
  const [chosen, setChosen] = React.useState<{ tasks?: TaskMode; smoothing?: number; log?: boolean }>({});
  const choose = (change: typeof chosen) => setChosen(before => ({ ...before, ...change }));
  const tasks = chosen.tasks ?? preferences.tasks;
  const smoothing = chosen.smoothing ?? preferences.smoothing;
  const log = chosen.log ?? preferences.logScale;
  const [filter, setFilter] = React.useState('');
  const rate = preferences.updatesPerSecond;
  const options = React.useMemo(() => ({ tasks, smoothing, log, filter, rate }), [tasks, smoothing, log, filter, rate]);
  const source = React.useMemo(() => new RunPlots(model, 'model'), [model]);
  const names = source.names.join('\n');
  const { all, found, keys } = React.useMemo(() => {
    const plots = plotsOf(names === '' ? [] : names.split('\n'));
    const wanted = plots.filter(filterOf(filter));
    return { all: plots.length, found: wanted.length, keys: keysOf(arrange(plots, []).families) };
  }, [names, filter]);
  return (
    <div className="jp-dtf-metrics">
      <div
        className="jp-dtf-toolbar"
        role="toolbar"
        aria-label={trans.__('Plots')}
        hidden={all === 0 && isFinal(model.info.state)}
      >
        <label>
          {trans.__('x')}
          <select value={model.shownX} onChange={event => model.setX(event.target.value as ShownAxis)}>
            <option value="step">{trans.__('step')}</option>
            <option value="epoch" disabled={model.pace.epoch === null}>
              {trans.__('epoch')}
            </option>
            <option value="examples" disabled={model.pace.examples === null}>
              {trans.__('examples')}
            </option>
            <option value="time">{trans.__('time')}</option>
            <option value="wall">{trans.__('time of day')}</option>
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
            onChange={event => choose({ smoothing: Number(event.target.value) })}
          />
          <span className="jp-dtf-number jp-dtf-smoothing">{smoothing.toFixed(2)}</span>
        </label>
        <label>
          <input type="checkbox" checked={log} onChange={event => choose({ log: event.target.checked })} />
          {trans.__('log')}
        </label>
        <label>
          {trans.__('tasks')}
          <select value={tasks} onChange={event => choose({ tasks: event.target.value as TaskMode })}>
            <option value="auto">{trans.__('auto')}</option>
            <option value="each">{trans.__('a line each')}</option>
            <option value="mean">{trans.__('mean and range')}</option>
            <option value="split">{trans.__('a plot each')}</option>
          </select>
        </label>
        <span className="jp-dtf-folds">
          {keys.length > 0 && filter === '' && (
            <>
              <button type="button" className="jp-dtf-button" onClick={() => choices.setOpen(keys, true)}>
                {trans.__('Expand all')}
              </button>
              <button type="button" className="jp-dtf-button" onClick={() => choices.setOpen(keys, false)}>
                {trans.__('Collapse all')}
              </button>
            </>
          )}
          <span role="status" className="jp-dtf-number jp-dtf-faint">
            {filter !== '' && trans.__('%1 of %2', found, all)}
          </span>
        </span>
        <input
          type="search"
          className="jp-dtf-search jp-dtf-filter"
          aria-label={trans.__('Filter metrics by words or regular expressions')}
          placeholder={trans.__('Filter')}
          title={trans.__('Words, or regular expressions: val norm$ layer_[12]/')}
          value={filter}
          onChange={event => setFilter(event.target.value)}
          onKeyDown={event => event.key === 'Escape' && setFilter('')}
        />
      </div>
      {all === 0 && <NoMetrics model={model} trans={trans} />}
      {all > 0 && found === 0 && <p className="jp-dtf-faint jp-dtf-none">{trans.__('No metrics match.')}</p>}
      <Plots source={source} choices={choices} options={options} themeChanged={props.themeChanged} trans={trans} />
      {all > 0 && <Marks model={model} trans={trans} />}
    </div>
  );
}

function NoMetrics(props: { model: RunModel; trans: TranslationBundle }): React.ReactElement | null {
  const { model, trans } = props;
  const { state } = model.info;
  return (
    <p className="jp-dtf-faint jp-dtf-none">
      {state === 'failed' || state === 'lost'
        ? trans.__('The run reported no metrics before it ended.')
        : isFinal(state)
          ? trans.__('This run reported no metrics. Report them with ctx.report(step=…, loss=…).')
          : trans.__('No metrics yet. Report them with ctx.report(step=…, loss=…); fit does so automatically.')}
    </p>
  );
}

/** The legend of the dashed marks on the plots and the ticks at their axes. */
function Marks(props: { model: RunModel; trans: TranslationBundle }): React.ReactElement | null {
  const { marks, checkpoints, info } = props.model;
  const { trans } = props;
  const last = checkpoints[checkpoints.length - 1];
  if (marks.length === 0 && !last) {
    return null;
  }
  const colours = taskColours(info.tasks.map(task => task.task));
  return (
    <ul className="jp-dtf-marks" aria-label={trans.__('Marks on the plots')}>
      {marks.map((mark, index) => (
        <li key={index} title={mark.details?.join('\n')}>
          <span aria-hidden="true" style={{ color: colours.get(mark.task) }}>
            ┊
          </span>{' '}
          {markText(mark)} <span className="jp-dtf-faint">{formatClock(mark.time)}</span>
        </li>
      ))}
      {last && (
        <li>
          <span aria-hidden="true">╷</span>{' '}
          {checkpoints.length === 1
            ? last.label
            : trans.__('%1 checkpoints, the last of step %2', checkpoints.length, last.step)}{' '}
          <span className="jp-dtf-faint">{formatClock(last.time)}</span>
        </li>
      )}
    </ul>
  );
}
