import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type {
  ClusterDesign,
  ClusterInfo,
  Design,
  DesignProblem,
  DesignReport,
  KindInfo,
  RunInfo
} from '../../api/schema';
import { Carried, deviceNumber, moved } from '../../model/carry';
import {
  addHost,
  addJob,
  capTask,
  changeHost,
  DesignTask,
  devicesOf,
  freeTask,
  HostDevice,
  layOut,
  putJob,
  putTask,
  removeHost,
  removeJob,
  renameJob,
  setCount,
  setHosts,
  tasksOf
} from '../../model/clusterdesign';
import { taskColours } from '../../plots/palette';
import { ChipHandlers, Said, TaskChip } from './clusterchip';
import { ClusterDetails, ClusterEdits, HostDetails, TaskDetails } from './clusterdetails';
import { Hosts, HostSource } from './clusterhosts';
import { Jobs } from './clusterjobs';
import { StatusStrip } from './clusterstrip';

export interface ClusterViewProps {
  design: Readonly<Design>;
  report: DesignReport | null;
  /** Why the design could not be checked, in words. */
  failure: string;
  readOnly: boolean;
  kinds: readonly KindInfo[];
  sources: readonly HostSource[];
  /** The cluster that was started from the design, if it is there. */
  live: ClusterInfo | undefined;
  /** The newest run on it. */
  run: RunInfo | undefined;
  /** Change the design by one step. */
  edit: (label: string, recipe: (draft: Design) => void) => void;
  copy: (text: string) => void;
  trans: TranslationBundle;
}

type Selection = { kind: 'task' | 'job' | 'host'; name: string } | null;

/** The cluster half of a design: jobs at the left, hosts in the middle, what is selected at the right. */
export function ClusterView(props: ClusterViewProps): React.ReactElement {
  const { design, report, readOnly, live, run, trans } = props;
  const { cluster } = design;
  const [selection, setSelection] = React.useState<Selection>(null);
  const [carried, setCarried] = React.useState<Carried | null>(null);
  const [said, setSaid] = React.useState('');
  const host = React.useRef<HTMLDivElement>(null);
  const focused = React.useRef<HTMLElement | null>(null);

  const tasks = React.useMemo(() => tasksOf(cluster), [cluster]);
  const devices = React.useMemo(() => devicesOf(cluster), [cluster]);
  const colours = React.useMemo(() => taskColours(tasks.map(({ task }) => task)), [tasks]);
  const problems = React.useMemo(() => sortProblems(report?.problems ?? [], cluster), [report, cluster]);
  const memory = React.useMemo(() => memoryOfTasks(report), [report]);
  const states = new Map(live && run ? run.tasks.map(({ task, state }) => [task, state]) : []);

  // What is moved is drawn anew in another place: the focus goes with it, and if it is gone, to the whole.
  React.useLayoutEffect(() => {
    const before = focused.current;
    if (before && !before.isConnected) {
      const chips = host.current?.querySelectorAll<HTMLElement>('[data-what]') ?? [];
      const what = before.dataset['what'];
      const after = [...chips].find(({ dataset }) => what !== undefined && dataset['what'] === what);
      (after ?? host.current)?.focus({ preventScroll: after === undefined });
    }
  });

  const edit = (label: string, recipe: (draft: ClusterDesign) => void) =>
    props.edit(label, draft => recipe(draft.cluster));

  const put = (what: string, device: HostDevice | undefined) => {
    const isTask = what.includes(':');
    if (device) {
      const where = `${device.host} ${device.device}`;
      edit(trans.__('Put %1 on %2', what, where), draft =>
        (isTask ? putTask : putJob)(draft, what, device.host, device.device)
      );
      setSaid(trans.__('%1 is on %2', what, where));
    } else {
      const freed = isTask ? [what] : tasks.filter(({ job }) => job === what).map(({ task }) => task);
      edit(trans.__('Take %1 from its device', what), draft => freed.forEach(task => freeTask(draft, task)));
      setSaid(trans.__('%1 goes where there is room', what));
    }
  };

  const where = (at: number) => {
    const device = devices[at];
    return device ? `${device.host} ${device.device}` : trans.__('no device: where there is room');
  };

  const handlers: ChipHandlers = {
    disabled: readOnly,
    carried: carried?.what ?? null,
    onSelect: what => setSelection({ kind: what.includes(':') ? 'task' : 'job', name: what }),
    onLeave: what => {
      if (carried?.what === what) {
        setCarried(null);
      }
    },
    onKey: (what, key) => {
      if (readOnly) {
        return false;
      }
      if (!carried) {
        if (key === 'Enter') {
          const place = tasks.find(({ task }) => task === what)?.place;
          setCarried({ what, at: place ? deviceNumber(devices, place.host, place.device) : -1 });
          setSaid(trans.__('%1 is picked up. Arrows choose a device, Enter puts it down, Escape leaves it.', what));
        } else if (key === 'Delete' || key === 'Backspace') {
          put(what, undefined);
        } else {
          return false;
        }
        return true;
      }
      if (key === 'Escape') {
        setCarried(null);
        setSaid(trans.__('%1 stays where it was', what));
        return true;
      }
      if (key === 'Enter' || key === ' ') {
        setCarried(null);
        put(what, devices[carried.at]);
        return true;
      }
      const at = moved(devices, carried.at, key);
      if (at === undefined) {
        return false;
      }
      setCarried({ what, at });
      setSaid(where(at));
      return true;
    }
  };

  const seats = new Map(live?.state === 'running' ? live.tasks.map(seat => [seat.task, seat]) : []);
  const went = (task: DesignTask) => {
    const seat = task.isDrawn ? undefined : seats.get(task.task);
    const device = seat?.gpus[0] === undefined ? 'CPU' : `GPU:${seat.gpus[0]}`;
    return seat ? `${seat.host} ${device}` : '';
  };

  const chip = (task: DesignTask) => (
    <TaskChip
      key={task.task}
      task={task.task}
      handlers={handlers}
      colour={colours.get(task.task)!}
      selected={selection?.kind === 'task' && selection.name === task.task}
      memory={memory.get(task.task) ?? null}
      state={states.get(task.task) ?? null}
      went={went(task)}
      problem={problems.tasks.get(task.task) ?? null}
      trans={trans}
    />
  );

  const edits: ClusterEdits = {
    setName: name => edit(trans.__('Name the cluster'), draft => void (draft.name = name)),
    setKind: kind =>
      edit(trans.__('Choose the kind %1', kind), draft => {
        draft.kind = kind;
        draft.options = {}; // those of another kind mean nothing to this one
      }),
    setOption: (name, value) =>
      edit(trans.__('Set %1', name), draft => {
        if (value === undefined) {
          delete draft.options[name];
        } else {
          draft.options[name] = value;
        }
      }),
    changeHost: (name, change) => {
      edit(trans.__('Change %1', name), draft => changeHost(draft, name, change));
      setSelection({ kind: 'host', name: change.name ?? name });
    },
    removeHost: name => {
      edit(trans.__('Remove %1', name), draft => removeHost(draft, name));
      setSelection(null);
    },
    putTask: put,
    freeTask: task => put(task, undefined),
    capTask: (task, bytes) => edit(trans.__('Cap %1', task), draft => capTask(draft, task, bytes))
  };
  const details = { cluster, report, readOnly, edits, copy: props.copy, trans };
  const task = selection?.kind === 'task' ? tasks.find(other => other.task === selection.name) : undefined;
  const chosen = selection?.kind === 'host' ? cluster.hosts.find(({ name }) => name === selection.name) : undefined;

  return (
    <div
      className="jp-dtf-design-cluster"
      ref={host}
      tabIndex={-1}
      onFocus={event => {
        focused.current = event.target;
      }}
      onKeyDown={event => {
        if (event.key === 'Escape' && !carried) {
          setSelection(null);
        }
      }}
    >
      <div className="jp-dtf-design-parts">
        <Jobs
          cluster={cluster}
          tasks={tasks}
          readOnly={readOnly}
          handlers={handlers}
          isTarget={carried?.at === -1}
          selected={selection?.kind === 'job' ? selection.name : null}
          problems={problems.jobs}
          chip={chip}
          onCount={(job, count) => edit(trans.__('Have %1 of %2', count, job), draft => setCount(draft, job, count))}
          onRename={(job, name) => edit(trans.__('Rename %1', job), draft => renameJob(draft, job, name))}
          onAdd={() => edit(trans.__('Add a job'), draft => void addJob(draft))}
          onRemove={job => edit(trans.__('Remove the job %1', job), draft => removeJob(draft, job))}
          onLayOut={job => {
            edit(trans.__('Lay out %1', job), draft => layOut(draft, job));
            setSaid(trans.__('%1 is laid out over the devices', job));
          }}
          onFree={what => put(what, undefined)}
          trans={trans}
        />
        <Hosts
          cluster={cluster}
          tasks={tasks}
          live={live?.state === 'running' ? live.hosts : []}
          sources={props.sources}
          readOnly={readOnly}
          target={carried ? (devices[carried.at] ?? null) : null}
          selected={chosen?.name ?? null}
          problems={problems.hosts}
          chip={chip}
          onDrop={put}
          onSelect={name => setSelection({ kind: 'host', name })}
          onAdd={() => edit(trans.__('Add a host'), draft => void addHost(draft, { cpus: 4 }))}
          onTake={(label, hosts) => edit(trans.__('Draw the hosts of %1', label), draft => setHosts(draft, hosts))}
          trans={trans}
        />
        <section className="jp-dtf-design-details" aria-label={trans.__('Properties')}>
          {task ? (
            <TaskDetails
              {...details}
              key={task.task}
              task={task}
              colour={colours.get(task.task)!}
              problems={problems.all.filter(({ about }) => about === task.task).map(({ problem }) => problem)}
            />
          ) : chosen ? (
            <HostDetails
              {...details}
              host={chosen}
              problems={problems.all
                .filter(({ about }) => about === `host ${chosen.name}`)
                .map(({ problem }) => problem)}
            />
          ) : (
            <ClusterDetails {...details} kinds={props.kinds} problems={problems.whole} />
          )}
        </section>
      </div>
      <StatusStrip
        report={report}
        failure={props.failure}
        live={live}
        trans={trans}
        onProblem={problem => setSelection(selectionOf(problem, cluster))}
      />
      <div className="jp-dtf-said" role="status" aria-live="assertive">
        {said}
      </div>
    </div>
  );
}

/** What each task needs of the memory that it has; only where both are known. */
function memoryOfTasks(report: DesignReport | null): Map<string, number> {
  const loads = new Map(report?.prediction?.devices.map(load => [load.device, load]));
  const found = new Map<string, number>();
  for (const [task, device] of Object.entries(report?.devices ?? {})) {
    const load = loads.get(device);
    if (load && load.memory_limit_bytes > 0) {
      found.set(task, load.memory_bytes / load.memory_limit_bytes);
    }
  }
  return found;
}

/** What the field of a problem is about: a task or job by its name, or a host. */
function selectionOf(problem: DesignProblem, cluster: Readonly<ClusterDesign>): Selection {
  const [, list, number] = /^cluster\.(tasks|hosts)\[(\d+)\]/.exec(problem.field) ?? [];
  const place = list === 'tasks' ? cluster.tasks[Number(number)] : undefined;
  if (place) {
    return { kind: 'task', name: `${place.job}:${place.index}` };
  }
  const host = list === 'hosts' ? cluster.hosts[Number(number)] : undefined;
  if (host) {
    return { kind: 'host', name: host.name };
  }
  const job = /^cluster\.jobs\.(.+)$/.exec(problem.field)?.[1];
  return job === undefined ? null : { kind: 'job', name: job };
}

/** Problems by what they are about; those of a job and of a host in words. */
function sortProblems(problems: readonly DesignProblem[], cluster: Readonly<ClusterDesign>) {
  const maps = { task: new Map<string, Said>(), job: new Map<string, Said>(), host: new Map<string, Said>() };
  const all: { about: string; problem: DesignProblem }[] = [];
  const whole: DesignProblem[] = []; // of the cluster as a whole
  for (const problem of problems) {
    const selection = selectionOf(problem, cluster);
    if (selection) {
      const { kind, name } = selection;
      const before = maps[kind].get(name);
      maps[kind].set(name, {
        message: before ? `${before.message}; ${problem.message}` : problem.message,
        isError: problem.level === 'error' || (before?.isError ?? false)
      });
      all.push({ about: kind === 'host' ? `host ${name}` : name, problem });
    } else if (problem.field.startsWith('cluster.')) {
      whole.push(problem);
    }
  }
  return { tasks: maps.task, jobs: maps.job, hosts: maps.host, all, whole };
}
