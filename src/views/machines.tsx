import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { HostInfo, RunInfo } from '../api/schema';
import { formatBytesOf, formatValue, metricTitle, unitOf } from '../model/format';
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

/** Each task with the host it runs on and what it uses of it, a column for each metric of `lines`; `children` are the plots of the same. */
export function Machines(props: {
  run: RunInfo;
  hosts: readonly HostInfo[];
  lines: readonly Line[];
  trans: TranslationBundle;
  children?: React.ReactNode;
}): React.ReactElement {
  const { run, hosts, lines, trans } = props;
  const metrics = [...new Set(lines.map(({ metric }) => metric))];
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
            {metrics.map(metric => (
              <th key={metric} scope="col" className="jp-dtf-number">
                {headingOf(metric, trans)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {run.tasks.map(task => {
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
                  {run.slow[task.task] !== undefined && (
                    <div className="jp-dtf-note" title={run.slow[task.task]}>
                      {trans.__('the others wait for it')}
                    </div>
                  )}
                </td>
                <td>{task.host}</td>
                <td className="jp-dtf-number">{task.pid > 0 ? task.pid : ''}</td>
                {metrics.map(metric => {
                  const value = newest(lines, metric, task.task);
                  return (
                    <td key={metric} className="jp-dtf-number">
                      {value === null ? '' : formatValue(value, unitOf(metric))}
                    </td>
                  );
                })}
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
                <th scope="row">
                  {host.name}
                  {host.problem !== '' && <div className="jp-dtf-note">{host.problem}</div>}
                </th>
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

/** `CPU (cores)`, `Memory`: a metric as the heading of a column. */
function headingOf(metric: string, trans: TranslationBundle): string {
  const title = metricTitle(metric).replace(/^./, first => first.toUpperCase());
  return unitOf(metric) === 'cores' ? trans.__('%1 (cores)', title) : title;
}
