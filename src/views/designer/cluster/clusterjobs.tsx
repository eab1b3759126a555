import type { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, closeIcon, tableRowsIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { ClusterDesign } from '../../../api/schema';
import { DesignTask, isJobName, rankedJobs, readCount } from '../../../model/clusterdesign';
import type { Said } from '../../../model/designproblems';
import { rangesOf } from '../../../model/spread';
import { IconButton } from '../../controls';
import { Chip, ChipHandlers, SaidBeside, TASK_MIME } from './clusterchip';
import { CommitField } from '../commitfield';

export interface JobsProps {
  cluster: Readonly<ClusterDesign>;
  tasks: readonly DesignTask[];
  readOnly: boolean;
  handlers: ChipHandlers;
  /** Whether something picked up with the keyboard currently has no target device. */
  isTarget: boolean;
  selected: string | null;
  /** The problems of each job. */
  problems: ReadonlyMap<string, Said>;
  chip: (task: DesignTask) => React.ReactNode;
  onCount: (job: string, count: number) => void;
  onRename: (job: string, name: string) => void;
  onAdd: () => void;
  onRemove: (job: string) => void;
  onLayOut: (job: string) => void;
  /** Remove a task, or all tasks of a job, from their devices. */
  onFree: (what: string) => void;
  trans: TranslationBundle;
}

// More tasks than this are shown as a few chips and a range.
const MOST_CHIPS = 24;
const SOME_CHIPS = 4;

/** The jobs with their numbers of tasks, and the unplaced tasks. */
export function Jobs(props: JobsProps): React.ReactElement {
  const { cluster, trans } = props;
  const [over, setOver] = React.useState(false);
  const carriesTask = (event: React.DragEvent) => !props.readOnly && event.dataTransfer.types.includes(TASK_MIME);
  return (
    <section
      className={`jp-dtf-design-jobs${over || props.isTarget ? ' jp-mod-target' : ''}`}
      aria-label={trans.__('Jobs')}
      onDragOver={event => {
        if (carriesTask(event)) {
          event.preventDefault();
          setOver(true);
        }
      }}
      onDragLeave={() => setOver(false)}
      onDrop={event => {
        setOver(false);
        if (carriesTask(event)) {
          event.preventDefault();
          props.onFree(event.dataTransfer.getData(TASK_MIME));
        }
      }}
    >
      <header className="jp-dtf-part-head">
        <h3>{trans.__('Jobs')}</h3>
        {!props.readOnly && <IconButton icon={addIcon} label={trans.__('Add a job')} onClick={props.onAdd} />}
      </header>
      <ul className="jp-dtf-job-list">
        {rankedJobs(cluster.jobs).map((job, index) => (
          <Job key={index} job={job} all={props} />
        ))}
      </ul>
      {!props.readOnly && (
        <p className="jp-dtf-faint jp-dtf-hint">
          {trans.__(
            'Drag tasks onto devices; or pick one up with Enter, choose a device with the arrow keys, and put it down with Enter.'
          )}
        </p>
      )}
    </section>
  );
}

function Job(props: { job: string; all: JobsProps }): React.ReactElement {
  const { job, all } = props;
  const { cluster, readOnly, trans } = all;
  const count = cluster.jobs[job]!;
  const free = all.tasks.filter(task => task.job === job && !task.isDrawn);
  return (
    <li aria-label={trans.__('Job %1', job)} className="jp-dtf-design-job">
      <div className="jp-dtf-design-job-line">
        <Chip
          what={job}
          label={trans.__('All tasks of %1', job)}
          title={trans.__('Drag all tasks of %1 onto one device', job)}
          className="jp-dtf-chip-job"
          selected={all.selected === job}
          handlers={all.handlers}
        >
          <span aria-hidden="true">⠿</span>
        </Chip>
        <CommitField<string>
          hideLabel
          label={trans.__('Name of %1', job)}
          text={job}
          disabled={readOnly}
          read={typed => {
            const name = typed.trim();
            if (!isJobName(name)) {
              return {
                problem: trans.__(
                  'The name of a job must be a letter followed by letters, digits or underscores, got %1',
                  name
                )
              };
            }
            return Object.hasOwn(cluster.jobs, name)
              ? { problem: trans.__('A job must appear only once, got %1 twice', name) }
              : { value: name };
          }}
          onCommit={name => all.onRename(job, name)}
        />
        <CommitField<number>
          hideLabel
          step={1}
          label={trans.__('Tasks of %1', job)}
          unit={trans._n('task', 'tasks', count)}
          text={String(count)}
          disabled={readOnly}
          read={typed => {
            const value = readCount(typed);
            return value === null
              ? { problem: trans.__('The number of tasks must be a whole number from 1 to 10000, got %1', typed) }
              : { value };
          }}
          onCommit={value => all.onCount(job, value)}
        />
        {!readOnly && (
          <>
            <IconButton
              icon={tableRowsIcon}
              label={trans.__('Distribute %1 over the devices', job)}
              disabled={cluster.hosts.length === 0}
              onClick={() => all.onLayOut(job)}
            />
            <IconButton
              icon={closeIcon}
              label={trans.__('Remove the job %1', job)}
              disabled={Object.keys(cluster.jobs).length === 1}
              onClick={() => all.onRemove(job)}
            />
          </>
        )}
      </div>
      <SaidBeside said={all.problems.get(job)} />
      {free.length > 0 && (
        <div className="jp-dtf-chips" role="group" aria-label={trans.__('Tasks of %1 without a device', job)}>
          {free.length <= MOST_CHIPS ? (
            free.map(all.chip)
          ) : (
            <>
              {free.slice(0, SOME_CHIPS).map(all.chip)}
              <span className="jp-dtf-faint">
                {rangesOf(free.slice(SOME_CHIPS).map(({ task }) => task))} (
                {trans._n('%1 task', '%1 tasks', free.length - SOME_CHIPS)})
              </span>
            </>
          )}
        </div>
      )}
    </li>
  );
}
