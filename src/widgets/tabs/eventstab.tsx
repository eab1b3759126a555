import React from 'react';

import { countTroubles, Events } from '../../views/events';
import { useSignals } from '../../views/hooks';
import type { DashboardTab, TabProps } from './dashboardtab';

// Number of lines of a task's output shown with its failure.
const LAST_LINES = 20;

export const eventsTab: DashboardTab = {
  id: 'events',
  title: (model, trans) => {
    const troubles = countTroubles(model.story);
    return troubles > 0 ? trans.__('Events (%1)', troubles) : trans.__('Events');
  },
  View: RunEvents
};

function RunEvents({ model, options }: TabProps): React.ReactElement {
  useSignals(model.storyChanged);
  // Read only if there is a failure to show, since lines arrive often.
  const printed = (task: string) =>
    model.output.lines
      .filter(line => line.task === task)
      .slice(-LAST_LINES)
      .map(line => line.text)
      .join('\n');
  return <Events story={model.story} trans={options.trans} printed={printed} />;
}
