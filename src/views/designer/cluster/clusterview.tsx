import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ClusterDesign, ClusterInfo, Design, DesignReport, KindInfo, RunInfo } from '../../../api/schema';
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
} from '../../../model/clusterdesign';
import { memoryOfTasks, Selection, selectionOf, sortProblems } from '../../../model/designproblems';
import { formatJobs } from '../../../model/format';
import { taskColours } from '../../../plots/palette';
import { useKeyboardPlacement } from './clusterkeyboard';
import { TaskChip } from './clusterchip';
import { ClusterDetails, ClusterEdits, HostDetails, TaskDetails } from './clusterdetails';
import { Hosts, HostSource } from './clusterhosts';
import { Jobs } from './clusterjobs';
import { StatusStrip } from './clusterstrip';
import { useFollowingFocus } from '../focusrestoration';

export interface ClusterViewProps {
  design: Readonly<Design>;
  report: DesignReport | null;
  /** Why the design could not be checked, as a message. */
  failure: string;
  readOnly: boolean;
  kinds: readonly KindInfo[];
  sources: readonly HostSource[];
  /** The cluster that was started from the design, if it exists. */
  live: ClusterInfo | undefined;
  /** The newest run on it. */
  run: RunInfo | undefined;
  /** Change the design in a single undoable step. */
  edit: (label: string, recipe: (draft: Design) => void) => void;
  copy: (text: string) => void;
  trans: TranslationBundle;
}

/** The cluster half of a design: jobs on the left, hosts in the middle, the selection on the right. */
export function ClusterView(props: ClusterViewProps): React.ReactElement {
  const { design, report, readOnly, live, run, trans } = props;
  const { cluster } = design;
  const [selection, setSelection] = React.useState<Selection>(null);
  const [said, setSaid] = React.useState('');
  const focus = useFollowingFocus();

  const tasks = React.useMemo(() => tasksOf(cluster), [cluster]);
  const devices = React.useMemo(() => devicesOf(cluster), [cluster]);
  const colours = React.useMemo(() => taskColours(tasks.map(({ task }) => task)), [tasks]);
  const problems = React.useMemo(() => sortProblems(report?.problems ?? [], cluster), [report, cluster]);
  const memory = React.useMemo(() => memoryOfTasks(report), [report]);
  const states = new Map(live && run ? run.tasks.map(({ task, state }) => [task, state]) : []);

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
      edit(trans.__('Unassign %1', what), draft => freed.forEach(task => freeTask(draft, task)));
      setSaid(trans.__('%1 is assigned automatically', what));
    }
  };

  const { carried, handlers } = useKeyboardPlacement({
    devices,
    placeOf: what => tasks.find(({ task }) => task === what)?.place,
    disabled: readOnly,
    onSelect: what => setSelection({ kind: what.includes(':') ? 'task' : 'job', name: what }),
    onPut: put,
    onSay: setSaid,
    trans
  });

  const locations = new Map(live?.state === 'running' ? live.tasks.map(location => [location.task, location]) : []);
  const went = (task: DesignTask) => {
    const location = task.isDrawn ? undefined : locations.get(task.task);
    const device = location?.gpus[0] === undefined ? 'CPU' : `GPU:${location.gpus[0]}`;
    return location ? `${location.host} ${device}` : '';
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
        draft.options = {}; // options of another kind are meaningless for this one
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
    capTask: (task, bytes) => edit(trans.__('Limit the memory of %1', task), draft => capTask(draft, task, bytes))
  };
  const details = { cluster, report, readOnly, edits, copy: props.copy, trans };
  const task = selection?.kind === 'task' ? tasks.find(other => other.task === selection.name) : undefined;
  const chosen = selection?.kind === 'host' ? cluster.hosts.find(({ name }) => name === selection.name) : undefined;

  return (
    <div
      className="jp-dtf-design-cluster"
      {...focus}
      tabIndex={-1}
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
          onCount={(job, count) =>
            edit(trans.__('Change to %1', formatJobs({ [job]: count })), draft => setCount(draft, job, count))
          }
          onRename={(job, name) => edit(trans.__('Rename %1', job), draft => renameJob(draft, job, name))}
          onAdd={() => edit(trans.__('Add a job'), draft => void addJob(draft))}
          onRemove={job => edit(trans.__('Remove the job %1', job), draft => removeJob(draft, job))}
          onLayOut={job => {
            edit(trans.__('Distribute %1', job), draft => layOut(draft, job));
            setSaid(trans.__('%1 is distributed over the devices', job));
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
          onAdd={() => {
            let name = '';
            edit(trans.__('Add a host'), draft => void (name = addHost(draft, { cpus: 4 })));
            setSelection({ kind: 'host', name });
          }}
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
              problems={problems.of(selection)}
            />
          ) : chosen ? (
            <HostDetails {...details} host={chosen} problems={problems.of(selection)} />
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
