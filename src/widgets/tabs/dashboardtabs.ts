import type { DashboardTab } from './dashboardtab';
import { eventsTab } from './eventstab';
import { machinesTab } from './machinestab';
import { metricsTab } from './metricstab';
import { outputTab } from './outputtab';
import { timelineTab } from './timelinetab';

/** The tabs of a run's dashboard, in their order. Another one is a module beside this one, and a line here. */
export const DASHBOARD_TABS: readonly DashboardTab[] = [metricsTab, machinesTab, timelineTab, outputTab, eventsTab];
