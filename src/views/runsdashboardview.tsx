import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, caretUpIcon, closeIcon } from '@jupyterlab/ui-components';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { DashboardPlot, RunInfo } from '../api/schema';
import { PlotChoices } from '../model/plotchoices';
import type { RunModel, XAxis } from '../model/run';
import type { RunsDashboardModel } from '../model/runsdashboard';
import { MOST_SMOOTHING } from '../model/runsdashboardtext';
import { ChosenPlot } from '../plots/chosenplot';
import { type ComparedRun, ComparedRuns } from '../plots/comparedruns';
import { taskColours } from '../plots/palette';
import { IconButton, SmallButton } from './controls';
import { useSignals } from './hooks';
import { Plots } from './plots';

/** Maximum number of runs listed for adding, the newest first. */
const MOST_LISTED = 200;

/** Information about the existing runs that the view needs. */
export interface DashboardRuns {
  readonly changed: ISignal<unknown, unknown>;
  /** Whether the list of runs has been received. */
  readonly isReady: boolean;
  readonly runs: readonly RunInfo[];
  model(id: string): RunModel | undefined;
  title(id: string): string;
}

interface Shared {
  model: RunsDashboardModel;
  runs: DashboardRuns;
  /** Updates per second. */
  rate: number;
  themeChanged: ISignal<unknown, unknown> | null;
  onOpenRun: (id: string) => void;
  onOpenText: () => void;
  trans: TranslationBundle;
}

/** The plots of a `.dtfplots` file, or why it cannot be read. */
export function RunsDashboardView(props: Shared): React.ReactElement {
  const { model, runs, trans } = props;
  useSignals(model.changed, runs.changed);
  const { dashboard, error, canEdit } = model;
  const there = dashboard.runs.filter(({ id }) => runs.model(id) !== undefined);
  const known = JSON.stringify(there.map(({ id }) => [id, runs.title(id)]));
  // The same objects until a run is added or renamed, since plots are re-created with them.
  const compared = React.useMemo(
    () =>
      (JSON.parse(known) as [string, string][]).flatMap(([id, title]): ComparedRun[] => {
        const found = runs.model(id);
        return found ? [{ model: found, title }] : [];
      }),
    [known, runs]
  );
  const x = dashboard.x as XAxis;
  React.useEffect(() => {
    compared.forEach(run => {
      run.model.setX(x);
      run.model.acquire();
    });
    return () => compared.forEach(run => run.model.release());
  }, [compared, x]);
  const [, count] = React.useReducer((value: number) => value + 1, 0);
  React.useEffect(() => {
    const slot = () => count();
    compared.forEach(run => run.model.metricsChanged.connect(slot));
    count(); // metrics may have been added between rendering and connecting
    return () => compared.forEach(run => run.model.metricsChanged.disconnect(slot));
  }, [compared]);
  if (error) {
    return (
      <div className="jp-dtf-broken" role="alert">
        <h3>{trans.__('This file cannot be shown as a dashboard')}</h3>
        <p className="jp-dtf-problem">{error.message}</p>
        <p className="jp-dtf-faint">{trans.__('Line %1, column %2', error.line, error.column)}</p>
        <div className="jp-dtf-detail-buttons">
          <SmallButton accent onClick={props.onOpenText}>
            {trans.__('Open as text')}
          </SmallButton>
          {model.canUndo && <SmallButton onClick={() => model.undo()}>{trans.__('Undo')}</SmallButton>}
        </div>
      </div>
    );
  }
  const taken = new Set(dashboard.runs.map(({ id }) => id));
  const metrics = new ComparedRuns(compared, x).plots().map(({ metric }) => metric);
  const chosen = new Set(dashboard.plots.map(({ metric }) => metric));
  return (
    <div className="jp-dtf-runs-dashboard">
      <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Dashboard')}>
        <input
          type="text"
          className="jp-dtf-runs-dashboard-title jp-mod-styled"
          aria-label={trans.__('Title')}
          placeholder={trans.__('Title')}
          value={dashboard.title}
          readOnly={!canEdit}
          onChange={event => model.edit(draft => (draft.title = event.target.value))}
        />
        <label>
          {trans.__('x')}
          <select
            value={x}
            disabled={!canEdit}
            onChange={event => model.edit(draft => (draft.x = event.target.value as XAxis))}
          >
            <option value="step">{trans.__('step')}</option>
            <option value="time">{trans.__('time')}</option>
          </select>
        </label>
        {canEdit && (
          <>
            <AddPlot
              metrics={metrics.filter(metric => !chosen.has(metric))}
              taken={chosen}
              trans={trans}
              onAdd={metric => model.edit(draft => draft.plots.push({ metric, smoothing: 0, log: false }))}
            />
            <AddRun
              runs={runs.runs.filter(run => !taken.has(run.id)).slice(0, MOST_LISTED)}
              title={id => runs.title(id)}
              trans={trans}
              onAdd={id => model.edit(draft => draft.runs.push({ id, name: '' }))}
            />
          </>
        )}
        {model.canUndo && <SmallButton onClick={() => model.undo()}>{trans.__('Undo')}</SmallButton>}
      </div>
      <Runs {...props} compared={compared} />
      {dashboard.plots.length === 0 && (
        <p className="jp-dtf-faint jp-dtf-none">{trans.__('No plots yet: add one by the name of its metric.')}</p>
      )}
      <div className="jp-dtf-runs-dashboard-plots">
        {dashboard.plots.map((plot, index) => (
          <OnePlot
            key={plot.metric}
            {...props}
            plot={plot}
            x={x}
            compared={compared}
            isFirst={index === 0}
            isLast={index === dashboard.plots.length - 1}
          />
        ))}
      </div>
    </div>
  );
}

/** The runs of the dashboard with their colors, and those that no longer exist. */
function Runs(props: Shared & { compared: readonly ComparedRun[] }): React.ReactElement {
  const { model, runs, compared, trans } = props;
  const colours = taskColours(compared.map(({ title }) => title));
  const titles = new Map(compared.map(run => [run.model.id, run.title]));
  return (
    <ul className="jp-dtf-runs-dashboard-runs" aria-label={trans.__('Runs')}>
      {model.dashboard.runs.map(({ id, name }) => {
        const title = titles.get(id);
        const shown = title ?? (name !== '' ? name : id);
        return (
          <li key={id}>
            {title !== undefined ? (
              <>
                <span className="jp-dtf-swatch" style={{ background: colours.get(title) }} />
                <button type="button" className="jp-dtf-link" onClick={() => props.onOpenRun(id)}>
                  {title}
                </button>
              </>
            ) : runs.isReady ? (
              <span className="jp-dtf-faint" title={id}>
                {trans.__('%1 no longer exists', shown)}
              </span>
            ) : (
              <span className="jp-dtf-faint">{shown}</span>
            )}
            {model.canEdit && (
              <IconButton
                icon={closeIcon}
                label={trans.__('Remove %1', shown)}
                onClick={() =>
                  model.edit(draft => {
                    draft.runs = draft.runs.filter(run => run.id !== id);
                  })
                }
              />
            )}
          </li>
        );
      })}
      {model.dashboard.runs.length === 0 && <li className="jp-dtf-faint">{trans.__('No runs yet')}</li>}
    </ul>
  );
}

/** One plot with its settings. */
function OnePlot(
  props: Shared & {
    plot: DashboardPlot;
    x: XAxis;
    compared: readonly ComparedRun[];
    isFirst: boolean;
    isLast: boolean;
  }
): React.ReactElement {
  const { model, plot, x, compared, rate, trans } = props;
  const { metric, smoothing, log } = plot;
  const source = React.useMemo(() => new ChosenPlot(compared, x, metric), [compared, x, metric]);
  const [choices] = React.useState(() => new PlotChoices()); // nothing is folded or pinned here
  const options = React.useMemo(
    () => ({ tasks: 'each' as const, smoothing, log, filter: '', rate }),
    [smoothing, log, rate]
  );
  const isThere = source.plots().length > 0;
  const edit = (change: Partial<DashboardPlot>) =>
    model.edit(draft => {
      draft.plots = draft.plots.map(other => (other.metric === metric ? { ...other, ...change } : other));
    });
  return (
    <section className="jp-dtf-runs-dashboard-plot" aria-label={trans.__('Plot of %1', metric)}>
      <div className="jp-dtf-toolbar" role="toolbar" aria-label={metric}>
        <label>
          {trans.__('smooth')}
          <input
            type="range"
            min={0}
            max={MOST_SMOOTHING}
            step={0.02}
            value={smoothing}
            disabled={!model.canEdit}
            aria-valuetext={smoothing.toFixed(2)}
            onChange={event => edit({ smoothing: Number(event.target.value) })}
          />
        </label>
        <label>
          <input
            type="checkbox"
            checked={log}
            disabled={!model.canEdit}
            onChange={event => edit({ log: event.target.checked })}
          />
          {trans.__('log')}
        </label>
        {model.canEdit && (
          <span className="jp-dtf-runs-dashboard-tools">
            <IconButton
              icon={caretUpIcon}
              label={trans.__('Move %1 up', metric)}
              disabled={props.isFirst}
              onClick={() => model.movePlot(metric, -1)}
            />
            <IconButton
              icon={caretDownIcon}
              label={trans.__('Move %1 down', metric)}
              disabled={props.isLast}
              onClick={() => model.movePlot(metric, 1)}
            />
            <IconButton
              icon={closeIcon}
              label={trans.__('Remove the plot of %1', metric)}
              onClick={() =>
                model.edit(draft => {
                  draft.plots = draft.plots.filter(other => other.metric !== metric);
                })
              }
            />
          </span>
        )}
      </div>
      {!isThere && (
        <p className="jp-dtf-faint jp-dtf-none">{trans.__('None of these runs has reported %1.', metric)}</p>
      )}
      <Plots source={source} choices={choices} options={options} themeChanged={props.themeChanged} trans={trans} />
    </section>
  );
}

/** A field for the name of a metric, with the known names as suggestions. */
function AddPlot(props: {
  metrics: readonly string[];
  taken: ReadonlySet<string>;
  trans: TranslationBundle;
  onAdd: (metric: string) => void;
}): React.ReactElement {
  const { metrics, taken, trans } = props;
  const [name, setName] = React.useState('');
  const id = React.useId();
  const wanted = name.trim();
  const can = wanted !== '' && !taken.has(wanted);
  return (
    <form
      className="jp-dtf-runs-dashboard-add"
      onSubmit={event => {
        event.preventDefault();
        if (can) {
          props.onAdd(wanted);
          setName('');
        }
      }}
    >
      <input
        type="text"
        className="jp-mod-styled"
        list={id}
        aria-label={trans.__('The metric of a plot to add')}
        placeholder={trans.__('Metric')}
        value={name}
        onChange={event => setName(event.target.value)}
      />
      <datalist id={id}>
        {metrics.map(metric => (
          <option key={metric} value={metric} />
        ))}
      </datalist>
      <button type="submit" className="jp-dtf-button" disabled={!can}>
        {trans.__('Add plot')}
      </button>
    </form>
  );
}

/** A list of the newest runs that are not in the dashboard. */
function AddRun(props: {
  runs: readonly RunInfo[];
  title: (id: string) => string;
  trans: TranslationBundle;
  onAdd: (id: string) => void;
}): React.ReactElement {
  const { runs, title, trans } = props;
  return (
    <select
      className="jp-dtf-runs-dashboard-add-run"
      aria-label={trans.__('Add a run')}
      value=""
      disabled={runs.length === 0}
      onChange={event => event.target.value !== '' && props.onAdd(event.target.value)}
    >
      <option value="">{trans.__('Add a run…')}</option>
      {runs.map(({ id }) => (
        <option key={id} value={id}>
          {title(id)}
        </option>
      ))}
    </select>
  );
}
