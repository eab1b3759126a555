import React from 'react';

import { OutputReading } from '../../model/output';
import { isFinal } from '../../model/runstate';
import { useSignals } from '../../views/hooks';
import { Output } from '../../views/outputlines';
import type { DashboardTab, TabProps } from './dashboardtab';

export const outputTab: DashboardTab = { id: 'output', title: (_, trans) => trans.__('Output'), View: RunOutput };

function RunOutput(props: TabProps): React.ReactElement {
  const { model, options } = props;
  const reading = React.useMemo(
    () => new OutputReading(model.output, page => options.dtf.runs.output(model.id, page)),
    [model, options.dtf]
  );
  useSignals(model.infoChanged, model.outputChanged, reading.changed);
  const names = model.info.tasks.map(task => task.task).join('\n');
  const tasks = React.useMemo(() => (names === '' ? [] : names.split('\n')), [names]);
  return (
    <Output
      lines={reading.lines}
      dropped={reading.isLive ? model.output.dropped : 0}
      pages={{
        hasEarlier: reading.hasEarlier,
        problem: reading.problem,
        earlier: () => void reading.earlier(),
        later: () => void reading.later(),
        follow: task => reading.follow(task)
      }}
      downloadUrl={(task, find) => options.dtf.api.outputUrl(model.id, task, find)}
      tasks={tasks}
      follow={options.dtf.preferences.values.followOutput}
      ended={isFinal(model.info.state)}
      trans={options.trans}
    />
  );
}
