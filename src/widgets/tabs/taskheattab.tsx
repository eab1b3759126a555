import React from 'react';

import { isLoad, isOfPair } from '../../model/tasklinks';
import { useSeen, useSignals } from '../../views/hooks';
import { TaskHeatMap } from '../../views/taskheatmap';
import type { TabProps } from './dashboardtab';

// The metrics that best show that a task is slower than the others.
const FIRST = ['step_seconds', 'examples_per_second'];

/** One metric of all tasks over time. Its lines are requested while visible. */
export function RunTaskHeat({ model, options }: TabProps): React.ReactElement | null {
  const { trans, themeChanged } = options;
  useSignals(model.metricsChanged, model.seriesChanged);
  const [chosen, setChosen] = React.useState('');
  const host = React.useRef<HTMLDivElement>(null);
  const seen = useSeen(host);
  const metrics = model.metrics.filter(metric => !isOfPair(metric));
  const usual = [...FIRST, ...metrics].find(metric => metrics.includes(metric)) ?? '';
  const metric = metrics.includes(chosen) ? chosen : usual;
  React.useEffect(() => {
    const viewer = {};
    if (seen && metric !== '') {
      model.want(viewer, [metric]);
    }
    return () => model.want(viewer, []);
  }, [model, seen, metric]);
  const names = model.info.tasks.map(({ task }) => task).join('\n');
  const tasks = React.useMemo(() => names.split('\n'), [names]);
  return (
    <div ref={host}>
      {metric !== '' && (
        <TaskHeatMap
          metric={metric}
          metrics={metrics}
          onMetric={setChosen}
          lines={model.lines(metric)}
          tasks={tasks}
          xName={isLoad(metric) || model.x === 'time' ? trans.__('second') : trans.__('step')}
          themeChanged={themeChanged}
          trans={trans}
        />
      )}
    </div>
  );
}
