import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { formatValue, type Unit } from '../model/format';
import { type Member, rangesOf, type Spread } from '../model/spread';

const MOST_NAMED = 5;

/** One metric of many tasks or hosts. */
export interface SpreadRow {
  title: string;
  unit: Unit;
  spread: Spread;
}

/** Metrics of many tasks or hosts, one row each: mean, standard deviation, minimum and maximum, and outliers. */
export function SpreadTable(props: {
  caption: string;
  rows: readonly SpreadRow[];
  trans: TranslationBundle;
}): React.ReactElement | null {
  const { rows, trans } = props;
  if (rows.length === 0) {
    return null;
  }
  const end = ({ value, name }: Member, unit: Unit) => (
    <>
      {formatValue(value, unit)} <span className="jp-dtf-faint">{name}</span>
    </>
  );
  return (
    <table className="jp-dtf-table jp-dtf-spread">
      <caption>{props.caption}</caption>
      <thead>
        <tr>
          <th scope="col">{trans.__('Measurement')}</th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Mean')}
          </th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Standard deviation')}
          </th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Lowest')}
          </th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Highest')}
          </th>
          <th scope="col">{trans.__('Outliers')}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ title, unit, spread }) => (
          <tr key={title}>
            <th scope="row">{title}</th>
            <td className="jp-dtf-number">{formatValue(spread.mean, unit)}</td>
            <td className="jp-dtf-number">{formatValue(spread.deviation, unit)}</td>
            <td className="jp-dtf-number">{end(spread.low, unit)}</td>
            <td className="jp-dtf-number">{end(spread.high, unit)}</td>
            <td>{namesText(spread.outliers, trans)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The first few names, `worker:317, worker:20`, and the number of others. */
export function namesText(members: readonly { name: string }[], trans: TranslationBundle): string {
  const names = members.slice(0, MOST_NAMED).map(({ name }) => name);
  const more = members.length - names.length;
  const text = rangesOf(names);
  return more > 0 ? trans.__('%1 and %2 more', text, more) : text;
}
