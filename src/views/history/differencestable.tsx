import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Compared } from '../../model/runtable';
import { cellText } from './runstable';

/** The runs being compared, for table headings. */
export interface ComparedHeads {
  ids: readonly string[];
  titles: readonly string[];
  colours: ReadonlyMap<string, string>;
}

/**
 * Values side by side, one column for each run: differences are highlighted, and equal rows are hidden until requested.
 */
export function Differences(
  props: ComparedHeads & {
    lines: readonly Compared[];
    label: string;
    /** The text shown if nothing differs. */
    none: string;
    now: number;
    trans: TranslationBundle;
    /** An element to show below a run's name, such as a button. */
    beside?: (index: number) => React.ReactNode;
  }
): React.ReactElement {
  const { ids, titles, colours, lines, now, trans, beside } = props;
  const [all, setAll] = React.useState(false);
  const shown = all ? lines : lines.filter(line => line.differs);
  return (
    <div className="jp-dtf-history-comparison">
      <label>
        <input type="checkbox" checked={!all} onChange={event => setAll(!event.target.checked)} />
        {trans.__('Differences only')}
      </label>
      {shown.length === 0 && <p className="jp-dtf-faint">{props.none}</p>}
      {(shown.length > 0 || beside) && (
        <table className="jp-dtf-table" aria-label={props.label}>
          <thead>
            <tr>
              <th scope="col">{trans.__('Property')}</th>
              {ids.map((id, index) => (
                <th key={id} scope="col">
                  <span aria-hidden="true" style={{ color: colours.get(id) }}>
                    ●{' '}
                  </span>
                  {titles[index]} {beside?.(index)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map(({ column, values, differs }) => (
              <tr key={column} data-differs={(differs && all) || undefined}>
                <th scope="row">
                  {column}
                  {differs && all && <span className="jp-dtf-differs"> {trans.__('differs')}</span>}
                </th>
                {values.map((value, index) => {
                  const text = cellText(column, value, now, trans);
                  return (
                    <td
                      key={ids[index]}
                      className={typeof value === 'number' ? 'jp-dtf-number' : undefined}
                      title={typeof value === 'string' && value !== text ? value : undefined}
                    >
                      {text}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
