import type { TranslationBundle } from '@jupyterlab/translation';
import { addIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { ClusterDesign, GpuInfo, HostDesign, HostInfo } from '../../../api/schema';
import { DesignTask, HostDevice, devicesOfHost, liveHosts } from '../../../model/clusterdesign';
import { type HostGroup, hostGroups, tasksOfGroup } from '../../../model/clustergroups';
import type { Said } from '../../../model/designproblems';
import { messageOf } from '../../../model/errormessage';
import { formatBytes, formatBytesOf, formatPercent } from '../../../model/format';
import { rangesOf } from '../../../model/spread';
import { Bar, SmallButton } from '../../controls';
import { SaidBeside, TASK_MIME } from './clusterchip';

/** A set of hosts that can be drawn together. `hosts` may query the server. */
export interface HostSource {
  label: string;
  hosts: () => Promise<readonly HostDesign[]>;
}

export interface HostsProps {
  cluster: Readonly<ClusterDesign>;
  tasks: readonly DesignTask[];
  /** The hosts of the running cluster; empty while it is not running. */
  live: readonly HostInfo[];
  sources: readonly HostSource[];
  readOnly: boolean;
  /** The current target of something picked up with the keyboard. */
  target: HostDevice | null;
  selected: string | null;
  /** The problems of each host. */
  problems: ReadonlyMap<string, Said>;
  chip: (task: DesignTask) => React.ReactNode;
  onDrop: (what: string, device: HostDevice) => void;
  onSelect: (host: string) => void;
  onAdd: () => void;
  onTake: (label: string, hosts: readonly HostDesign[]) => void;
  trans: TranslationBundle;
}

const MOST_CHIPS = 60;
const MOST_CHARACTERS = 40;

/** Hosts as cards with their devices, and on each device the tasks placed there. */
export function Hosts(props: HostsProps): React.ReactElement {
  const { cluster, live, sources, readOnly, trans } = props;
  const [notice, setNotice] = React.useState('');
  const none = cluster.hosts.length === 0;
  const { tasks } = props;
  const byDevice = React.useMemo(() => groupByDevice(tasks), [tasks]);
  const groups = React.useMemo(() => hostGroups(cluster, byDevice), [cluster, byDevice]);
  const [open, setOpen] = React.useState<ReadonlySet<string>>(new Set());
  const fold = (key: string) => setOpen(before => new Set([...before].filter(other => other !== key)));
  const lives = React.useMemo(() => liveHosts(live), [live]);
  // The selection and the keyboard's target are drawn even if folded.
  const isLookedAt = ({ name }: HostDesign) => name === props.selected || name === props.target?.host;
  const take = (source: HostSource) => {
    setNotice('');
    source.hosts().then(
      hosts => {
        if (hosts.length > 0) {
          props.onTake(source.label, hosts);
        } else {
          setNotice(trans.__('The hosts of %1 are not known until it runs.', source.label));
        }
      },
      (error: unknown) => setNotice(messageOf(error))
    );
  };
  return (
    <section className="jp-dtf-hosts" aria-label={trans.__('Hosts')}>
      <header className="jp-dtf-part-head">
        <h3>{trans.__('Hosts')}</h3>
        {!readOnly && (
          <>
            <SmallButton label={trans.__('Add a host')} onClick={props.onAdd}>
              <addIcon.react tag="span" className="jp-dtf-icon" />
              {trans.__('Host')}
            </SmallButton>
            <select
              aria-label={trans.__('Draw the hosts of')}
              value=""
              onChange={event => take(sources[Number(event.target.value)]!)}
            >
              <option value="" disabled>
                {trans.__('Draw the hosts of…')}
              </option>
              {sources.map((source, index) => (
                <option key={source.label} value={index}>
                  {source.label}
                </option>
              ))}
            </select>
          </>
        )}
      </header>
      <div role="status">{notice !== '' && <p className="jp-dtf-note">{notice}</p>}</div>
      {none && (
        <p className="jp-dtf-none jp-dtf-faint">
          {trans.__(
            'No hosts are drawn: tasks are assigned automatically to the hosts of the cluster. Draw hosts to choose which task runs on which device.'
          )}
        </p>
      )}
      <ul className="jp-dtf-host-cards">
        {groups.flatMap(group => {
          const isMany = group.hosts.length > 1;
          if (isMany && !open.has(group.key) && !group.hosts.some(isLookedAt)) {
            const unfold = () => setOpen(before => new Set(before).add(group.key));
            return [
              <GroupCard key={`group ${group.key}`} group={group} byDevice={byDevice} all={props} onOpen={unfold} />
            ];
          }
          return group.hosts.map(host => (
            <HostCard
              key={host.name}
              host={host}
              live={lives.get(host.name)}
              byDevice={byDevice}
              all={props}
              {...(isMany && host === group.hosts[0] && open.has(group.key) ? { onFold: () => fold(group.key) } : {})}
            />
          ));
        })}
      </ul>
    </section>
  );
}

type ByDevice = ReadonlyMap<string, readonly DesignTask[]>;

/** The tasks of each device that has any, keyed by `host/device`. */
function groupByDevice(tasks: readonly DesignTask[]): ByDevice {
  const found = new Map<string, DesignTask[]>();
  for (const task of tasks) {
    if (task.place && task.isDrawn) {
      const key = `${task.place.host}/${task.place.device}`;
      const there = found.get(key);
      if (there) {
        there.push(task);
      } else {
        found.set(key, [task]);
      }
    }
  }
  return found;
}

/** Identical hosts as one card, with all of their tasks. */
function GroupCard(props: {
  group: HostGroup;
  byDevice: ByDevice;
  all: HostsProps;
  onOpen: () => void;
}): React.ReactElement {
  const { group, byDevice, all } = props;
  const { trans } = all;
  const name = rangesOf(group.hosts.map(host => host.name));
  const problems = group.hosts.filter(host => all.problems.has(host.name));
  return (
    <li className="jp-dtf-host jp-dtf-host-group" aria-label={trans.__('Hosts %1', name)}>
      <button
        type="button"
        className="jp-dtf-host-head"
        aria-expanded={false}
        title={trans.__('Draw each host separately')}
        onClick={props.onOpen}
      >
        <strong>{name}</strong>
        <span className="jp-dtf-faint">{trans.__('%1 identical', group.hosts.length)}</span>
      </button>
      {problems.length > 0 && (
        <p className="jp-dtf-problem">
          {trans.__('There is a problem with %1', rangesOf(problems.map(host => host.name)))}
        </p>
      )}
      <dl className="jp-dtf-group-devices">
        {tasksOfGroup(group, byDevice)
          .filter(({ device, tasks }) => device === 'CPU' || tasks.length > 0)
          .map(({ device, tasks }) => (
            <React.Fragment key={device}>
              <dt>
                {device === 'CPU'
                  ? trans._n('CPU, %1 core', 'CPU, %1 cores', group.hosts[0]!.cpus)
                  : device.replace(':', ' ')}
              </dt>
              <dd>
                {tasks.length === 0 ? '–' : `${trans._n('%1 task', '%1 tasks', tasks.length)}: ${shortRanges(tasks)}`}
              </dd>
            </React.Fragment>
          ))}
      </dl>
    </li>
  );
}

/** `worker:0–7`, or the first and the last if they do not form ranges. */
function shortRanges(tasks: readonly string[]): string {
  const ranges = rangesOf(tasks);
  return ranges.length <= MOST_CHARACTERS ? ranges : `${tasks[0]!} … ${tasks[tasks.length - 1]!}`;
}

function HostCard(props: {
  host: HostDesign;
  live: HostInfo | undefined;
  byDevice: ByDevice;
  all: HostsProps;
  /** Combine it with identical hosts again. */
  onFold?: () => void;
}): React.ReactElement {
  const { host, live, byDevice, all } = props;
  const { trans } = all;
  return (
    <li className="jp-dtf-host" aria-label={trans.__('Host %1', host.name)}>
      <button
        type="button"
        className="jp-dtf-host-head"
        aria-pressed={all.selected === host.name}
        onClick={() => all.onSelect(host.name)}
      >
        <strong>{host.name}</strong>
        <span className="jp-dtf-faint">
          {live ? trans.__('%1 CPU', formatPercent(live.threads > 0 ? live.cpu / live.threads : 0)) : ''}
        </span>
      </button>
      {props.onFold && (
        <button type="button" className="jp-dtf-link jp-dtf-host-fold" onClick={props.onFold}>
          {trans.__('Draw identical hosts as one')}
        </button>
      )}
      <SaidBeside said={all.problems.get(host.name)} />
      {devicesOfHost(host).map(device => (
        <Slot
          key={device.device}
          device={device}
          host={host}
          live={live}
          here={byDevice.get(`${device.host}/${device.device}`) ?? []}
          all={all}
        />
      ))}
    </li>
  );
}

function Slot(props: {
  device: HostDevice;
  host: HostDesign;
  live: HostInfo | undefined;
  here: readonly DesignTask[];
  all: HostsProps;
}): React.ReactElement {
  const { device, host, live, here, all } = props;
  const { target, trans } = all;
  const [over, setOver] = React.useState(false);
  const isCpu = device.device === 'CPU';
  const carriesTask = (event: React.DragEvent) => !all.readOnly && event.dataTransfer.types.includes(TASK_MIME);
  const aimed = over || (target?.host === device.host && target.device === device.device);
  const tasks = trans._n('%1 task', '%1 tasks', here.length);
  return (
    <div
      className={`jp-dtf-slot${aimed ? ' jp-mod-target' : ''}`}
      role="group"
      aria-label={trans.__('%1 of %2, %3', device.device, host.name, tasks)}
      data-host={device.host}
      data-device-name={device.device}
      onDragOver={event => {
        if (carriesTask(event)) {
          event.preventDefault();
          event.dataTransfer.dropEffect = 'move';
          setOver(true);
        }
      }}
      onDragLeave={() => setOver(false)}
      onDrop={event => {
        setOver(false);
        if (carriesTask(event)) {
          event.preventDefault();
          all.onDrop(event.dataTransfer.getData(TASK_MIME), device);
        }
      }}
    >
      <div className="jp-dtf-slot-head">
        <span>{isCpu ? trans._n('CPU, %1 core', 'CPU, %1 cores', host.cpus) : device.device.replace(':', ' ')}</span>
        <Memory device={device} live={live} trans={trans} />
      </div>
      <div className="jp-dtf-chips">
        {here.slice(0, MOST_CHIPS).map(all.chip)}
        {here.length > MOST_CHIPS && (
          <span className="jp-dtf-faint">{trans.__('and %1 more', here.length - MOST_CHIPS)}</span>
        )}
      </div>
    </div>
  );
}

/** A device's memory in use while the cluster is running, otherwise its size. */
function Memory(props: {
  device: HostDevice;
  live: HostInfo | undefined;
  trans: TranslationBundle;
}): React.ReactElement | null {
  const { device, live, trans } = props;
  const gpu: GpuInfo | undefined = live?.gpus[Number(device.device.split(':')[1] ?? NaN)];
  const now = device.device === 'CPU' ? live : gpu;
  if (now && now.memory_bytes > 0) {
    const words = formatBytesOf(now.memory_used_bytes, now.memory_bytes);
    return (
      <>
        <Bar
          kind={gpu ? 'gpu' : 'cpu'}
          fraction={now.memory_used_bytes / now.memory_bytes}
          label={trans.__('Memory in use: %1', words)}
        />
        <span className="jp-dtf-number jp-dtf-faint">{words}</span>
        {gpu && <span className="jp-dtf-number">{formatPercent(gpu.utilization)}</span>}
      </>
    );
  }
  return device.memory_bytes > 0 ? (
    <span className="jp-dtf-number jp-dtf-faint">{formatBytes(device.memory_bytes)}</span>
  ) : null;
}
