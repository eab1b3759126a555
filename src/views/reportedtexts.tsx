import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { MediaSeries, ReportedTable, ReportedText } from '../api/schema';
import { formatNumber } from '../model/format';
import { useRead } from './hooks';
import { StepChoice, useChosenStep } from './stepchoice';

type Shown = ReportedText | ReportedTable;

/** The text or the table with one name at the chosen step. */
export function ReportedTexts(props: {
  series: MediaSeries;
  read: (step: number) => Promise<Shown>;
  trans: TranslationBundle;
}): React.ReactElement {
  const { series, read, trans } = props;
  const { steps, name } = series;
  const [index, choose] = useChosenStep(steps);
  const shown = useRead(read, steps[index]!);
  return (
    <section className="jp-dtf-pictures" aria-label={name}>
      <h3 title={name}>{name}</h3>
      <StepChoice steps={steps} index={index} choose={choose} trans={trans} />
      {typeof shown === 'string' && <p className="jp-dtf-faint">{shown}</p>}
      {typeof shown === 'object' && (
        <div
          className="jp-dtf-reported"
          role="group"
          tabIndex={0}
          aria-label={trans.__('%1 at step %2', name, formatNumber(shown.step))}
        >
          {shown.type === 'text' ? <pre>{shown.text}</pre> : <Table table={shown} trans={trans} />}
        </div>
      )}
    </section>
  );
}

function Table({ table, trans }: { table: ReportedTable; trans: TranslationBundle }): React.ReactElement {
  if (table.rows.length === 0) {
    return <p className="jp-dtf-faint">{trans.__('No rows')}</p>;
  }
  return (
    <table>
      <thead>
        <tr>
          {table.columns.map((column, index) => (
            <th key={index} scope="col">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {table.rows.map((row, index) => (
          <tr key={index}>
            {row.map((cell, place) => (
              <td key={place} className={typeof cell === 'number' ? 'jp-dtf-number' : undefined}>
                {typeof cell === 'number' ? formatNumber(cell) : String(cell ?? '')}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
