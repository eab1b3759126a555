import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { HostInfo, RunInfo } from '../api/schema';
import { formatBytes, formatBytesOf, formatNumber } from '../model/format';
import type { Line } from '../model/series';
import { exitText } from '../model/state';
import { taskColours } from '../plots/palette';
import { StateMark } from './basics';
import { stateText } from './words';

/** The newest value of a metric of a task. */
export function newest(lines: readonly Line[], metric: string, task: string): number | null {
  const line = lines.find(other => other.metric === metric && other.task === task);
  return line && line.y.length > 0 ? line.y[line.y.length - 1]! : null;
}

/** Each task with the host it runs on and what it uses of it; `children` are the plots of the same. */
export function Machines(props: {
  run: RunInfo;
  hosts: readonly HostInfo[];
  lines: readonly Line[];
  trans: TranslationBundle;
  children?: React.ReactNode;
}): React.ReactElement {
  const { run, hosts, lines, trans } = props;
  const colours = taskColours(run.tasks.map(task => task.task));
  return (
    <div className="jp-dtf-machines">
      <table className="jp-dtf-table">
        <caption>{trans.__('Tasks')}</caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('Task')}</th>
            <th scope="col">{trans.__('State')}</th>
            <th scope="col">{trans.__('Host')}</th>
            <th scope="col" className="jp-dtf-number">
              {trans.__('Process')}
            </th>
            <th scope="col" className="jp-dtf-number">
              {trans.__('CPU (cores)')}
            </th>
            <th scope="col" className="jp-dtf-number">
              {trans.__('Memory')}
            </th>
          </tr>
        </thead>
        <tbody>
          {run.tasks.map(task => {
            const cpu = newest(lines, 'cpu', task.task);
            const memory = newest(lines, 'memory_bytes', task.task);
            const exit = exitText(task);
            return (
              <tr key={task.task}>
                <th scope="row">
                  <span className="jp-dtf-swatch" style={{ background: colours.get(task.task) }} />
                  {task.task}
                </th>
                <td>
                  <StateMark state={task.state} trans={trans} /> {stateText(task.state, trans)}
                  {exit !== '' && ` (${exit})`}
                </td>
                <td>{task.host}</td>
                <td className="jp-dtf-number">{task.pid > 0 ? task.pid : ''}</td>
                <td className="jp-dtf-number">{cpu === null ? '' : formatNumber(Number(cpu.toFixed(2)))}</td>
                <td className="jp-dtf-number">{memory === null ? '' : formatBytes(memory)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {hosts.length > 0 && (
        <table className="jp-dtf-table">
          <caption>{trans.__('Hosts now')}</caption>
          <thead>
            <tr>
              <th scope="col">{trans.__('Host')}</th>
              <th scope="col">{trans.__('Machine')}</th>
              <th scope="col" className="jp-dtf-number">
                {trans.__('CPU (cores)')}
              </th>
              <th scope="col" className="jp-dtf-number">
                {trans.__('Memory')}
              </th>
            </tr>
          </thead>
          <tbody>
            {hosts.map(host => (
              <tr key={host.name}>
                <th scope="row">{host.name}</th>
                <td>{host.machine}</td>
                <td className="jp-dtf-number">
                  {host.cpu.toFixed(1)} / {host.threads}
                </td>
                <td className="jp-dtf-number">{formatBytesOf(host.memory_used_bytes, host.memory_bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {props.children}
    </div>
  );
}
