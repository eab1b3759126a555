import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import { formatClock } from '../model/format';
import type { PreferenceValues } from '../model/preferences';
import type { RunModel, XAxis } from '../model/run';
import { isFinal } from '../model/state';
import { MACHINE_METRICS, TaskMode } from '../plots/groups';
import { taskColours } from '../plots/palette';
import { useSignals } from './hooks';
import { Plots } from './plots';

/** The plots of a run's metrics, and what can be chosen about them. */
export function Metrics(props: {
  model: RunModel;
  preferences: Readonly<PreferenceValues>;
  themeChanged: ISignal<unknown, unknown> | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { model, preferences, trans } = props;
  useSignals(model.infoChanged, model.storyChanged);
  const [tasks, setTasks] = React.useState<TaskMode>(preferences.tasks);
  const [smoothing, setSmoothing] = React.useState(preferences.smoothing);
  const [log, setLog] = React.useState(preferences.logScale);
  const [filter, setFilter] = React.useState('');
  const [x, setX] = React.useState<XAxis>(model.x);
  const rate = preferences.updatesPerSecond;
  const options = React.useMemo(
    () => ({ tasks, smoothing, log, filter, rate, machines: false }),
    [tasks, smoothing, log, filter, rate]
  );
  return (
    <div className="jp-dtf-metrics">
      <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Plots')}>
        <label>
          {trans.__('x')}
          <select
            value={x}
            onChange={event => {
              setX(event.target.value as XAxis);
              model.setX(event.target.value as XAxis);
            }}
          >
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
          <span className="jp-dtf-number jp-dtf-smoothing">{smoothing.toFixed(2)}</span>
        </label>
        <label>
          <input type="checkbox" checked={log} onChange={event => setLog(event.target.checked)} />
          {trans.__('log')}
        </label>
        <label>
          {trans.__('tasks')}
          <select value={tasks} onChange={event => setTasks(event.target.value as TaskMode)}>
            <option value="each">{trans.__('each')}</option>
            <option value="mean">{trans.__('mean')}</option>
          </select>
        </label>
        <span className="jp-dtf-spacer" />
        <input
          type="search"
          className="jp-dtf-search"
          aria-label={trans.__('Show only metrics with these words')}
          placeholder={trans.__('metric')}
          value={filter}
          onChange={event => setFilter(event.target.value)}
        />
      </div>
      <NoMetrics model={model} trans={trans} />
      <Plots model={model} options={options} themeChanged={props.themeChanged} trans={trans} />
      <Marks model={model} trans={trans} />
    </div>
  );
}

function NoMetrics(props: { model: RunModel; trans: TranslationBundle }): React.ReactElement | null {
  const { model, trans } = props;
  if (Object.keys(model.info.latest).some(metric => !MACHINE_METRICS.has(metric))) {
    return null;
  }
  return (
    <p className="jp-dtf-faint jp-dtf-none">
      {isFinal(model.info.state)
        ? trans.__('This run reported no metric. A program reports with ctx.report(step=…, loss=…).')
        : trans.__('No metric yet. A program reports with ctx.report(step=…, loss=…); fit does so by itself.')}
    </p>
  );
}

/** What the dashed marks on the plots are. */
function Marks(props: { model: RunModel; trans: TranslationBundle }): React.ReactElement | null {
  const { marks, info } = props.model;
  if (marks.length === 0) {
    return null;
  }
  const colours = taskColours(info.tasks.map(task => task.task));
  return (
    <ul className="jp-dtf-marks" aria-label={props.trans.__('Marks on the plots')}>
      {marks.map((mark, index) => (
        <li key={index}>
          <span aria-hidden="true" style={{ color: colours.get(mark.task) }}>
            ┊
          </span>{' '}
          {mark.task} {mark.label} <span className="jp-dtf-faint">{formatClock(mark.time)}</span>
        </li>
      ))}
    </ul>
  );
}
