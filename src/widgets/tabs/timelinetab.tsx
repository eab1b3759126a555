import React from 'react';

import { PROFILE_STEPS } from '../../api/schema';
import { messageOf } from '../../model/errormessage';
import { isFinal } from '../../model/runstate';
import { useSignals } from '../../views/hooks';
import { KnownTrace, Timeline } from '../../views/tracetimeline';
import type { DashboardTab, TabProps } from './dashboardtab';

export const timelineTab: DashboardTab = {
  id: 'timeline',
  title: (_, trans) => trans.__('Timeline'),
  View: RunTimeline
};

/** Fetches the run's trace when first shown, and again when the run's state has changed. */
function RunTimeline(props: TabProps): React.ReactElement {
  const { model, options } = props;
  const { dtf, trans } = options;
  const [trace, setTrace] = React.useState<KnownTrace>(undefined);
  const [problem, setProblem] = React.useState('');
  useSignals(model.infoChanged, model.storyChanged);
  const [refused, setRefused] = React.useState('');
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
      (error: unknown) => !gone && setProblem(messageOf(error))
    );
    return () => {
      gone = true;
    };
  }, [dtf, model, told, asked]);
  const profile = () => {
    setRefused('');
    dtf.runs.profile(model.id, PROFILE_STEPS).catch((error: unknown) => setRefused(messageOf(error)));
  };
  const names = model.info.tasks.map(task => task.task).join('\n');
  const tasks = React.useMemo(() => (names === '' ? [] : names.split('\n')), [names]);
  return (
    <Timeline
      trace={trace}
      problem={problem}
      tasks={tasks}
      downloadUrl={dtf.runs.traceUrl(model.id)}
      onReload={isFinal(model.info.state) ? null : askAgain}
      profiling={{
        profile: model.info.profile,
        onProfile: model.info.state === 'running' ? profile : null,
        refused
      }}
      trans={trans}
    />
  );
}
