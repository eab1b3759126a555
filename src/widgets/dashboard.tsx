import { ReactWidget } from '@jupyterlab/apputils';
import React from 'react';

import type { RunModel } from '../model/run';
import { Header } from '../views/dashboardheader';
import { useSignals } from '../views/hooks';
import { Tabs } from '../views/tabs';
import type { DashboardOptions } from './tabs/dashboardtab';
import { DASHBOARD_TABS } from './tabs/dashboardtabs';
import { RunMetrics } from './tabs/metricstab';

/** A run's dashboard: everything that is known about it. With `compact`, only its header and metrics. */
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

/** Wait until the run is known, which takes a moment after the page is reloaded. */
function Finder(props: { options: DashboardOptions; compact: boolean }): React.ReactElement {
  const { dtf, run, trans } = props.options;
  useSignals(dtf.runs.changed);
  const model = dtf.runs.model(run);
  if (!model) {
    return (
      <p className="jp-dtf-faint jp-dtf-none" role="status">
        {dtf.runs.isReady ? trans.__('The run %1 no longer exists.', run) : trans.__('Looking for the run…')}
      </p>
    );
  }
  return <Dashboard key={model.id} model={model} {...props} />;
}

function Dashboard(props: { model: RunModel; options: DashboardOptions; compact: boolean }): React.ReactElement {
  const { model, options, compact } = props;
  const { dtf, trans } = options;
  const [tab, setTab] = React.useState(DASHBOARD_TABS[0]!.id);
  useSignals(model.infoChanged, model.storyChanged, dtf.preferences.changed);
  // A restored dashboard exists before the preferences are loaded. A change in one dashboard of a run applies to all of
  // them.
  const { xAxis } = dtf.preferences.values;
  React.useEffect(() => model.preferX(xAxis), [model, xAxis]);
  React.useEffect(() => {
    model.acquire();
    return () => model.release();
  }, [model]);
  const { info } = model;
  const source = dtf.runs.get(info.resumed_from);
  const header = (
    <Header
      run={info}
      trans={trans}
      onStop={() => options.stop(info.id)}
      onPause={() => options.pause(info.id)}
      onContinue={() => options.continue(info.id)}
      onResume={at => options.resume(info.id, at)}
      {...(source ? { source: { name: source.name, open: () => options.open(source.id) } } : {})}
      onMenu={at => options.menu(info.id, at)}
    />
  );
  if (compact) {
    return (
      <>
        {header}
        <RunMetrics model={model} options={options} />
      </>
    );
  }
  return (
    <>
      {header}
      <Tabs
        label={trans.__('Views of %1', info.name)}
        active={tab}
        onActive={setTab}
        tabs={DASHBOARD_TABS.map(({ id, title, View }) => ({
          id,
          title: title(model, trans),
          content: <View model={model} options={options} />
        }))}
      />
    </>
  );
}
