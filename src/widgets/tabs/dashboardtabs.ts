import { codeTab } from './codetab';
import type { DashboardTab } from './dashboardtab';
import { eventsTab } from './eventstab';
import { machinesTab } from './machinestab';
import { mediaTab } from './mediatab';
import { metricsTab } from './metricstab';
import { outputTab } from './outputtab';
import { scaleTab } from './scaletab';
import { timelineTab } from './timelinetab';

/** The tabs of a run's dashboard, in order. To add one, write a module next to this one, and add a line here. */
export const DASHBOARD_TABS: readonly DashboardTab[] = [
  metricsTab,
  mediaTab,
  machinesTab,
  timelineTab,
  scaleTab,
  outputTab,
  eventsTab,
  codeTab
];
