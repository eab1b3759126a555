import React from 'react';

import { STEP_PARTS, TASK_LOAD } from '../../api/schema';
import { isOfPair, linksOf } from '../../model/tasklinks';
import { MachinesModel } from '../../model/machinefigures';
import { isFinal } from '../../model/runstate';
import { taskStepsOf } from '../../model/stepparts';
import type { GridOptions } from '../../plots/grid';
import { MachinePlots } from '../../plots/machineplots';
import { RunPlots } from '../../plots/runplots';
import { useSeen, useSignals } from '../../views/hooks';
import { Links } from '../../views/linktable';
import { MachineHistory } from '../../views/machinehistory';
import { Machines } from '../../views/machines';
import { Plots } from '../../views/plots';
import { StepParts } from '../../views/stepbars';
import type { DashboardTab, TabProps } from './dashboardtab';
import { RunTaskHeat } from './taskheattab';

const LOAD = Object.keys(TASK_LOAD);
const PARTS = Object.keys(STEP_PARTS);
// With fewer tasks, their lines can be told apart in a plot.
const MANY_TASKS = 4;

export const machinesTab: DashboardTab = {
  id: 'machines',
  title: (_, trans) => trans.__('Machines'),
  View: RunMachines
};

function RunMachines(props: TabProps): React.ReactElement {
  const { model, options } = props;
  const { dtf, trans } = options;
  useSignals(model.infoChanged, model.seriesChanged, dtf.clusters.changed);
  const pairs = model.metrics.filter(isOfPair);
  const wanted = JSON.stringify(pairs);
  React.useEffect(() => {
    const table = {};
    model.want(table, [...LOAD, ...PARTS, ...(JSON.parse(wanted) as string[])]);
    return () => model.want(table, []);
  }, [model, wanted]);
  const rate = dtf.preferences.values.updatesPerSecond;
  const plots = React.useMemo(() => ({ tasks: 'auto', smoothing: 0, log: false, filter: '', rate }) as const, [rate]);
  const source = React.useMemo(() => new RunPlots(model, 'load'), [model]);
  const found = dtf.clusters.get(model.info.cluster);
  // A newer cluster of the same name may have replaced it.
  const cluster = found && found.created <= model.info.created ? found : undefined;
  return (
    <Machines
      run={model.info}
      hosts={cluster?.hosts ?? []}
      lines={LOAD.flatMap(metric => model.lines(metric))}
      trans={trans}
    >
      <StepParts
        steps={taskStepsOf(
          PARTS.flatMap(metric => model.lines(metric)),
          source.tasks
        )}
        slow={model.info.slow}
        trans={trans}
      />
      <Links
        links={linksOf(
          pairs.flatMap(metric => model.lines(metric)),
          source.tasks
        )}
        tasks={model.info.tasks}
        trans={trans}
      />
      {model.info.tasks.length >= MANY_TASKS && <RunTaskHeat {...props} />}
      <Plots
        source={source}
        choices={dtf.preferences.plots}
        options={plots}
        themeChanged={options.themeChanged}
        trans={trans}
      />
      {dtf.clusters.isReady && <History {...props} plots={plots} isThere={cluster !== undefined} />}
    </Machines>
  );
}

/** Polls the machines' metrics while visible. */
function History(props: TabProps & { plots: GridOptions; isThere: boolean }): React.ReactElement {
  const { model, options, isThere } = props;
  const { dtf, trans } = options;
  const { cluster, ended, state } = model.info;
  const { origin } = model;
  const machines = React.useMemo(
    () => new MachinesModel(origin, after => dtf.api.machines(cluster, after)),
    [dtf, cluster, origin]
  );
  const source = React.useMemo(
    () =>
      new MachinePlots(machines, {
        all: hosts => trans.__('All %1 hosts', hosts),
        each: trans.__('Each host')
      }),
    [machines, trans]
  );
  const host = React.useRef<HTMLDivElement>(null);
  const seen = useSeen(host);
  React.useEffect(() => machines.setEnd(ended), [machines, ended]);
  React.useEffect(() => {
    if (seen && isThere) {
      machines.follow();
      return () => machines.rest();
    }
    return;
  }, [machines, seen, isThere]);
  return (
    <div ref={host}>
      <MachineHistory machines={isThere ? machines : null} cluster={cluster} ended={isFinal(state)} trans={trans}>
        <Plots
          source={source}
          choices={dtf.preferences.plots}
          options={props.plots}
          themeChanged={options.themeChanged}
          trans={trans}
        />
      </MachineHistory>
    </div>
  );
}
