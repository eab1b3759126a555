import { Clipboard } from '@jupyterlab/apputils';
import React from 'react';

import type { EfficiencyReport } from '../../api/schema';
import { messageOf } from '../../model/errormessage';
import { ForecastModel, WAYS } from '../../model/forecasts';
import { isFinal } from '../../model/runstate';
import { Efficiency } from '../../views/forecast/efficiencyreport';
import { ForecastView } from '../../views/forecast/forecastview';
import { useSeen, useSignals } from '../../views/hooks';
import { useHardware } from '../designerscale';
import type { DashboardTab, TabProps } from './dashboardtab';

// A run does not specify how to split its model into stages.
const WAYS_OF_RUN = WAYS.filter(({ id }) => id !== 'pipeline');

export const scaleTab: DashboardTab = { id: 'scale', title: (_, trans) => trans.__('Scale'), View: RunScale };

/** How well a finished run used its tasks, and how its program would scale, based on its own steps. */
function RunScale({ model, options }: TabProps): React.ReactElement {
  const { trans } = options;
  useSignals(model.infoChanged);
  return isFinal(model.info.state) ? (
    <EndedRunScale model={model} options={options} />
  ) : (
    <p className="jp-dtf-none jp-dtf-faint">
      {trans.__('After the run has ended, this shows how well it used its tasks, and how far it would scale.')}
    </p>
  );
}

function EndedRunScale({ model, options }: TabProps): React.ReactElement {
  const { dtf, trans, themeChanged } = options;
  const { id } = model;
  const host = React.useRef<HTMLDivElement>(null);
  const seen = useSeen(host);
  const hardware = useHardware(dtf);
  const [report, setReport] = React.useState<EfficiencyReport | null>(null);
  const [problem, setProblem] = React.useState('');
  const forecasts = React.useMemo(
    () =>
      new ForecastModel(
        (settings, signal) => Promise.all(settings.map(one => dtf.api.forecastRun(id, one, signal))),
        WAYS_OF_RUN
      ),
    [dtf, id]
  );
  React.useEffect(() => {
    let gone = false;
    dtf.api.efficiency(id).then(
      found => !gone && setReport(found),
      (error: unknown) => !gone && setProblem(messageOf(error))
    );
    return () => {
      gone = true;
    };
  }, [dtf, id]);
  React.useEffect(() => {
    if (seen) {
      forecasts.refresh();
      return () => forecasts.rest();
    }
    return;
  }, [forecasts, seen]);
  const measured = React.useMemo(
    () =>
      report && report.examples_per_second > 0
        ? [{ tasks: report.tasks, examplesPerSecond: report.examples_per_second }]
        : [],
    [report]
  );
  return (
    <div ref={host} className="jp-dtf-scale-tab">
      {problem !== '' && (
        <p className="jp-dtf-problem" role="alert">
          {problem}
        </p>
      )}
      {report && <Efficiency report={report} trans={trans} />}
      <ForecastView
        ofRun
        model={forecasts}
        hardware={hardware}
        measured={measured}
        copy={text => Clipboard.copyToSystem(text)}
        themeChanged={themeChanged}
        trans={trans}
      />
    </div>
  );
}
