import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import type { RunModel } from '../model/run';
import { isFinal } from '../model/state';
import type { IDtf } from '../tokens';
import { countTroubles, Events } from '../views/events';
import { Header } from '../views/header';
import { useSignals } from '../views/hooks';
import { Machines } from '../views/machines';
import { Metrics } from '../views/metrics';
import { Output } from '../views/output';
import { Plots } from '../views/plots';
import { Tabs } from '../views/tabs';
import { KnownTrace, Timeline } from '../views/timeline';

export interface DashboardOptions {
  run: string;
  dtf: IDtf;
  trans: TranslationBundle;
  themeChanged: ISignal<unknown, unknown> | null;
  stop(run: string): void;
  menu(run: string, at: HTMLElement): void;
}

/** A run's dashboard: everything that is known of it. With `compact`, its header and metrics only. */
export class RunDashboard extends ReactWidget {
  constructor(
    private readonly _options: DashboardOptions,
    private readonly _compact = false
  ) {
    super();
    this.addClass('jp-dtf-dashboard');
    this.toggleClass('jp-mod-compact', _compact);
  }

  get run(): string {
    return this._options.run;
  }

  protected override render(): React.ReactElement {
    return <Finder options={this._options} compact={this._compact} />;
  }
}

/** Wait for the run to be known, which after a page reload takes a moment. */
function Finder(props: { options: DashboardOptions; compact: boolean }): React.ReactElement {
  const { dtf, run, trans } = props.options;
  useSignals(dtf.runs.changed);
  const model = dtf.runs.model(run);
  if (!model) {
    return (
      <p className="jp-dtf-faint jp-dtf-none" role="status">
        {dtf.runs.isReady ? trans.__('There is no run %1 any more.', run) : trans.__('Looking for the run…')}
      </p>
    );
  }
  return <Dashboard key={model.id} model={model} {...props} />;
}

function Dashboard(props: { model: RunModel; options: DashboardOptions; compact: boolean }): React.ReactElement {
  const { model, options, compact } = props;
  const { dtf, trans, themeChanged } = options;
  const [tab, setTab] = React.useState('metrics');
  useSignals(model.infoChanged, model.storyChanged, dtf.preferences.changed);
  React.useState(() => {
    // The first dashboard of a run decides what it is drawn over; changed in one, it changes in all.
    if (!model.isWatched) {
      model.setX(dtf.preferences.values.xAxis);
    }
  });
  React.useEffect(() => {
    model.acquire();
    return () => model.release();
  }, [model]);
  const { info } = model;
  const header = (
    <Header run={info} trans={trans} onStop={() => options.stop(info.id)} onMenu={at => options.menu(info.id, at)} />
  );
  const metrics = (
    <Metrics model={model} preferences={dtf.preferences.values} themeChanged={themeChanged} trans={trans} />
  );
  if (compact) {
    return (
      <>
        {header}
        {metrics}
      </>
    );
  }
  const troubles = countTroubles(model.story);
  return (
    <>
      {header}
      <Tabs
        label={trans.__('Views of %1', info.name)}
        active={tab}
        onActive={setTab}
        tabs={[
          { id: 'metrics', title: trans.__('Metrics'), content: metrics },
          { id: 'machines', title: trans.__('Machines'), content: <RunMachines model={model} options={options} /> },
          { id: 'timeline', title: trans.__('Timeline'), content: <RunTimeline model={model} options={options} /> },
          { id: 'output', title: trans.__('Output'), content: <RunOutput model={model} options={options} /> },
          {
            id: 'events',
            title: troubles > 0 ? trans.__('Events (%1)', troubles) : trans.__('Events'),
            content: <Events story={model.story} trans={trans} />
          }
        ]}
      />
    </>
  );
}

function RunOutput(props: { model: RunModel; options: DashboardOptions }): React.ReactElement {
  const { model, options } = props;
  useSignals(model.outputChanged);
  const names = model.info.tasks.map(task => task.task).join('\n');
  const tasks = React.useMemo(() => (names === '' ? [] : names.split('\n')), [names]);
  return (
    <Output
      lines={model.output.lines}
      dropped={model.output.dropped}
      tasks={tasks}
      follow={options.dtf.preferences.values.followOutput}
      trans={options.trans}
    />
  );
}

/** Asks for the run's trace when it is first looked at, and again when the run has changed its state. */
function RunTimeline(props: { model: RunModel; options: DashboardOptions }): React.ReactElement {
  const { model, options } = props;
  const { dtf, trans } = options;
  const [trace, setTrace] = React.useState<KnownTrace>(undefined);
  const [problem, setProblem] = React.useState('');
  useSignals(model.infoChanged, model.storyChanged);
  const [asked, askAgain] = React.useReducer((count: number) => count + 1, 0);
  const told = model.story.length;
  React.useEffect(() => {
    let gone = false;
    dtf.runs.trace(model.id).then(
      found => {
        if (!gone) {
          setTrace(found);
          setProblem('');
        }
      },
      (error: unknown) => !gone && setProblem(error instanceof Error ? error.message : String(error))
    );
    return () => {
      gone = true;
    };
  }, [dtf, model, told, asked]);
  const names = model.info.tasks.map(task => task.task).join('\n');
  const tasks = React.useMemo(() => (names === '' ? [] : names.split('\n')), [names]);
  return (
    <Timeline
      trace={trace}
      problem={problem}
      tasks={tasks}
      downloadUrl={dtf.runs.traceUrl(model.id)}
      onReload={isFinal(model.info.state) ? null : askAgain}
      trans={trans}
    />
  );
}

function RunMachines(props: { model: RunModel; options: DashboardOptions }): React.ReactElement {
  const { model, options } = props;
  const { dtf, trans } = options;
  useSignals(model.infoChanged, model.seriesChanged, dtf.clusters.changed);
  const rate = dtf.preferences.values.updatesPerSecond;
  const plots = React.useMemo(
    () => ({ tasks: 'each', smoothing: 0, log: false, filter: '', rate, machines: true }) as const,
    [rate]
  );
  return (
    <Machines
      run={model.info}
      hosts={dtf.clusters.get(model.info.cluster)?.hosts ?? []}
      lines={model.lines()}
      trans={trans}
    >
      <Plots model={model} options={plots} themeChanged={options.themeChanged} trans={trans} />
    </Machines>
  );
}
