import type { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, closeIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { type Problem, USUAL_JOBS } from '../api/schema';
import { IconButton } from './controls';

/** A job while it is being typed: the name may still be invalid and the count empty. */
export interface JobRow {
  job: string;
  count: string;
}

/** Rows in the server's format. An empty count becomes 0, which the server rejects with an explanation. */
export function jobsOf(rows: readonly JobRow[]): Record<string, number> {
  return Object.fromEntries(rows.map(({ job, count }) => [job.trim(), count.trim() === '' ? 0 : Number(count)]));
}

export function rowsOf(jobs: Record<string, number>): JobRow[] {
  return Object.entries(jobs).map(([job, count]) => ({ job, count: String(count) }));
}

/** The problems of a field, displayed below it. */
export function Problems(props: {
  problems: readonly Problem[];
  field: string;
  id: string;
}): React.ReactElement | null {
  const mine = props.problems.filter(problem => problem.field === props.field);
  if (mine.length === 0) {
    return null;
  }
  return (
    <div id={props.id} className="jp-dtf-field-problems" role="alert">
      {mine.map(problem => (
        <div key={problem.message} className={problem.level === 'error' ? 'jp-dtf-problem' : 'jp-dtf-note'}>
          {problem.message}
        </div>
      ))}
    </div>
  );
}

/** Jobs with their numbers of tasks. With `fixed`, only the numbers can be changed. */
export function JobRows(props: {
  rows: JobRow[];
  problems: readonly Problem[];
  trans: TranslationBundle;
  fixed?: boolean;
  onChange: (rows: JobRow[]) => void;
}): React.ReactElement {
  const { rows, problems, trans, fixed } = props;
  const id = React.useId();
  const set = (index: number, change: Partial<JobRow>) =>
    props.onChange(rows.map((row, i) => (i === index ? { ...row, ...change } : row)));
  const add = () => {
    const next = USUAL_JOBS.find(job => !rows.some(row => row.job === job)) ?? `job${rows.length}`;
    props.onChange([...rows, { job: next, count: '1' }]);
  };
  return (
    <fieldset className="jp-dtf-jobs">
      <legend>{trans.__('Jobs and their tasks')}</legend>
      {rows.map((row, index) => {
        const field = `jobs.${row.job}`;
        const wrong = problems.some(problem => problem.field === field && problem.level === 'error');
        return (
          <div key={index}>
            <div className="jp-dtf-job">
              {fixed ? (
                <span className="jp-dtf-job-name">{row.job}</span>
              ) : (
                <input
                  type="text"
                  className="jp-mod-styled"
                  list={`${id}-jobs`}
                  value={row.job}
                  aria-label={trans.__('Name of job %1', index + 1)}
                  aria-invalid={wrong}
                  aria-describedby={`${id}-${index}`}
                  onChange={event => set(index, { job: event.target.value })}
                />
              )}
              <input
                type="number"
                className="jp-mod-styled"
                min={1}
                value={row.count}
                aria-label={trans.__('Tasks of %1', row.job)}
                aria-invalid={wrong}
                aria-describedby={`${id}-${index}`}
                onChange={event => set(index, { count: event.target.value })}
              />
              <span className="jp-dtf-faint" aria-hidden="true">
                {trans._n('task', 'tasks', Number(row.count))}
              </span>
              {!fixed && rows.length > 1 && (
                <IconButton
                  icon={closeIcon}
                  label={trans.__('Remove the job %1', row.job)}
                  onClick={() => props.onChange(rows.filter((_, i) => i !== index))}
                />
              )}
            </div>
            <Problems problems={problems} field={field} id={`${id}-${index}`} />
          </div>
        );
      })}
      <datalist id={`${id}-jobs`}>
        {USUAL_JOBS.map(job => (
          <option key={job} value={job} />
        ))}
      </datalist>
      <Problems problems={problems} field="jobs" id={`${id}-all`} />
      {!fixed && (
        <button type="button" className="jp-dtf-link" onClick={add}>
          <addIcon.react tag="span" className="jp-dtf-icon" />
          {trans.__('Add a job')}
        </button>
      )}
    </fieldset>
  );
}
