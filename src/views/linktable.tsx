import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { TaskInfo } from '../api/schema';
import { formatValue } from '../model/format';
import { Link, speedOf } from '../model/tasklinks';

/**
 * The traffic per step between `tasks` on different machines, one row for each pair. Renders nothing if there is none.
 */
export function Links(props: {
  links: readonly Link[];
  tasks: readonly TaskInfo[];
  trans: TranslationBundle;
}): React.ReactElement | null {
  const { links, tasks, trans } = props;
  const named = (task: string) => (
    <>
      {task} <span className="jp-dtf-faint">{tasks.find(each => each.task === task)?.host}</span>
    </>
  );
  if (links.length === 0) {
    return null;
  }
  return (
    <table className="jp-dtf-table">
      <caption>{trans.__('Traffic between machines per step')}</caption>
      <thead>
        <tr>
          <th scope="col">{trans.__('From')}</th>
          <th scope="col">{trans.__('To')}</th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Sent')}
          </th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Transfer time')}
          </th>
          <th scope="col" className="jp-dtf-number">
            {trans.__('Speed')}
          </th>
        </tr>
      </thead>
      <tbody>
        {links.map(link => (
          <tr key={`${link.from} ${link.to}`}>
            <th scope="row">
              {named(link.from)}
              {link.slow && (
                <div className="jp-dtf-note">
                  {trans.__('The link to %1 is far slower than the others. All tasks wait for it.', link.to)}
                </div>
              )}
            </th>
            <td>{named(link.to)}</td>
            <td className="jp-dtf-number">{formatValue(link.bytes, 'bytes')}</td>
            <td className="jp-dtf-number">{formatValue(link.seconds, 'seconds')}</td>
            <td className="jp-dtf-number">{link.seconds > 0 ? formatValue(speedOf(link), 'bytes_per_second') : ''}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
