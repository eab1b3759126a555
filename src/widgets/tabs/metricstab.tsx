import React from 'react';

import { useSignals } from '../../views/hooks';
import { Metrics } from '../../views/metrics';
import type { DashboardTab, TabProps } from './dashboardtab';

export const metricsTab: DashboardTab = { id: 'metrics', title: (_, trans) => trans.__('Metrics'), View: RunMetrics };

/** The plots of the model's metrics; also used for a run's output in a notebook. */
export function RunMetrics(props: TabProps): React.ReactElement {
  const { model, options } = props;
  const { dtf, trans, themeChanged } = options;
  useSignals(model.infoChanged, model.storyChanged, dtf.preferences.changed);
  return (
    <Metrics
      model={model}
      preferences={dtf.preferences.values}
      choices={dtf.preferences.plots}
      themeChanged={themeChanged}
      trans={trans}
    />
  );
}
