import React from 'react';

import { countTroubles, Events } from '../../views/events';
import { useSignals } from '../../views/hooks';
import type { DashboardTab, TabProps } from './dashboardtab';

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
  return <Events story={model.story} trans={options.trans} />;
}
