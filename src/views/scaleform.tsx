import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ClusterInfo, Problem } from '../api/schema';
import { JobRows, jobsOf, Problems, rowsOf } from './jobrows';
import { problemOf } from './newcluster';

/** The form that changes the number of tasks of each job of a cluster. */
export function Scale(props: {
  cluster: ClusterInfo;
  trans: TranslationBundle;
  onScale: (jobs: Record<string, number>) => Promise<void>;
  onCancel: () => void;
}): React.ReactElement {
  const { cluster, trans } = props;
  const [rows, setRows] = React.useState(rowsOf(cluster.jobs));
  const [problem, setProblem] = React.useState<Problem | null>(null);
  const [busy, setBusy] = React.useState(false);
  const problems = problem ? [problem] : [];
  const submit = (event: React.FormEvent) => {
    event.preventDefault();
    setBusy(true);
    props
      .onScale(jobsOf(rows))
      .catch((error: unknown) => setProblem(problemOf(error)))
      .finally(() => setBusy(false));
  };
  return (
    <form className="jp-dtf-form" onSubmit={submit}>
      <JobRows
        fixed
        rows={rows}
        problems={problems}
        trans={trans}
        onChange={changed => {
          setRows(changed);
          setProblem(null);
        }}
      />
      <Problems problems={problems} field="" id="jp-dtf-scale-problems" />
      {cluster.active_runs > 0 && (
        <p className="jp-dtf-faint">{trans.__('Runs that have already started keep their tasks.')}</p>
      )}
      <div className="jp-dtf-form-buttons">
        <button type="button" className="jp-mod-styled jp-mod-reject" onClick={props.onCancel}>
          {trans.__('Cancel')}
        </button>
        <button type="submit" className="jp-mod-styled jp-mod-accept" disabled={busy}>
          {trans.__('Scale')}
        </button>
      </div>
    </form>
  );
}
