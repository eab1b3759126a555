import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { RunInfo } from '../../api/schema';
import { compareRuns } from '../../model/runtable';
import { cellText } from './runstable';

/** What runs have beside each other; what differs is marked, and what does not is left out until it is asked for. */
export function Comparison(props: {
  runs: readonly RunInfo[];
  titles: readonly string[];
  colours: ReadonlyMap<string, string>;
  now: number;
  trans: TranslationBundle;
}): React.ReactElement {
  const { runs, titles, colours, now, trans } = props;
  const [all, setAll] = React.useState(false);
  const lines = React.useMemo(() => compareRuns(runs), [runs]);
  const shown = all ? lines : lines.filter(line => line.differs);
  return (
    <div className="jp-dtf-history-comparison">
      <label>
        <input type="checkbox" checked={!all} onChange={event => setAll(!event.target.checked)} />
        {trans.__('Differences only')}
      </label>
      {shown.length === 0 ? (
        <p className="jp-dtf-faint">{trans.__('These runs differ in nothing that is known of them.')}</p>
      ) : (
        <table className="jp-dtf-table">
          <thead>
            <tr>
              <th scope="col">{trans.__('What')}</th>
              {runs.map((run, index) => (
                <th key={run.id} scope="col">
                  <span aria-hidden="true" style={{ color: colours.get(run.id) }}>
                    ●{' '}
                  </span>
                  {titles[index]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map(({ column, values, differs }) => (
              <tr key={column} data-differs={differs || undefined}>
                <th scope="row">
                  {column}
                  {differs && all && <span className="jp-dtf-faint"> {trans.__('differs')}</span>}
                </th>
                {values.map((value, index) => (
                  <td key={runs[index]!.id} className={typeof value === 'number' ? 'jp-dtf-number' : undefined}>
                    {cellText(column, value, now, trans)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
