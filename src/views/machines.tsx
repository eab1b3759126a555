import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { HostInfo, RunInfo } from '../api/schema';
import { formatBytesOf, formatValue, metricTitle, unitOf } from '../model/format';
import type { Line } from '../model/series';
import { MANY } from '../model/spread';
import { hostSpreads, rankedHosts, rankedTasks, type RankedTask } from '../model/outlierranking';
import { exitText } from '../model/runstate';
import { taskColours } from '../plots/palette';
import { StateMark } from './controls';
import { LongTable, type RowPlace } from './longtable';
import { type SpreadRow, SpreadTable } from './spreadtable';
import { stateText } from './localizedtext';

/**
 * Each task with its host and its use of resources, one column for each metric of `lines`; `children` are plots of the
 * same. Many tasks or hosts are summarized, and listed with outliers first.
 */
export function Machines(props: {
  run: RunInfo;
  hosts: readonly HostInfo[];
  lines: readonly Line[];
  trans: TranslationBundle;
  children?: React.ReactNode;
}): React.ReactElement {
  const { run, hosts, lines, trans } = props;
  return (
    <div className="jp-dtf-machines">
      <Tasks run={run} lines={lines} trans={trans} />
      {hosts.length > 0 && <Hosts hosts={hosts} trans={trans} />}
      {props.children}
    </div>
  );
}

function Tasks(props: { run: RunInfo; lines: readonly Line[]; trans: TranslationBundle }): React.ReactElement {
  const { run, lines, trans } = props;
  const many = run.tasks.length > MANY;
  const metrics = [...new Set(lines.map(({ metric }) => metric))];
  const colours = taskColours(run.tasks.map(task => task.task));
  const { rows, spreads, states } = rankedTasks(run, lines, many);
  const head = (
    <>
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
    </>
  );
  const row = ({ task, values, remark }: RankedTask, place: RowPlace = {}) => {
    const exit = exitText(task);
    const slow = run.slow[task.task];
    return (
      <tr key={task.task} {...place}>
        <th scope="row">
          <span className="jp-dtf-swatch" style={{ background: colours.get(task.task) }} />
          {task.task}
        </th>
        <td title={slow}>
          <StateMark state={task.state} trans={trans} /> {stateText(task.state, trans)}
          {exit !== '' && ` (${exit})`}
          {slow !== undefined &&
            (many ? (
              <span className="jp-dtf-note"> · {trans.__('the others wait for it')}</span>
            ) : (
              <div className="jp-dtf-note" title={slow}>
                {trans.__('the others wait for it')}
              </div>
            ))}
          {many && remark === 'far' && <span className="jp-dtf-note"> · {trans.__('outlier')}</span>}
        </td>
        <td>{task.host}</td>
        <td className="jp-dtf-number">{task.pid > 0 ? task.pid : ''}</td>
        {metrics.map(metric => {
          const value = values.get(metric);
          return (
            <td key={metric} className="jp-dtf-number">
              {value === undefined ? '' : formatValue(value, unitOf(metric))}
            </td>
          );
        })}
      </tr>
    );
  };
  if (!many) {
    return (
      <table className="jp-dtf-table">
        <caption>{trans.__('Tasks')}</caption>
        <thead>
          <tr>{head}</tr>
        </thead>
        <tbody>{rows.map(each => row(each))}</tbody>
      </table>
    );
  }
  const figures = metrics.flatMap((metric): SpreadRow[] => {
    const spread = spreads.get(metric);
    return spread ? [{ title: headingOf(metric, trans), unit: unitOf(metric), spread }] : [];
  });
  const told = [...states].map(([state, count]) => `${count} ${stateText(state, trans)}`).join(', ');
  return (
    <>
      <SpreadTable caption={trans.__('All %1 tasks', rows.length)} rows={figures} trans={trans} />
      <LongTable
        caption={trans.__('Tasks: %1', told)}
        head={head}
        columns={4 + metrics.length}
        items={rows}
        row={row}
      />
    </>
  );
}

function Hosts(props: { hosts: readonly HostInfo[]; trans: TranslationBundle }): React.ReactElement {
  const { hosts, trans } = props;
  const many = hosts.length > MANY;
  const head = (
    <>
      <th scope="col">{trans.__('Host')}</th>
      <th scope="col">{trans.__('Machine')}</th>
      <th scope="col" className="jp-dtf-number">
        {trans.__('CPU (cores)')}
      </th>
      <th scope="col" className="jp-dtf-number">
        {trans.__('Memory')}
      </th>
    </>
  );
  const row = (host: HostInfo, place: RowPlace = {}) => (
    <tr key={host.name} {...place}>
      <th scope="row">
        {host.name}
        {host.problem !== '' &&
          (many ? (
            <span className="jp-dtf-note" title={host.problem}>
              {' '}
              · {host.problem}
            </span>
          ) : (
            <div className="jp-dtf-note">{host.problem}</div>
          ))}
      </th>
      <td>{host.machine}</td>
      <td className="jp-dtf-number">
        {host.cpu.toFixed(1)} / {host.threads}
      </td>
      <td className="jp-dtf-number">{formatBytesOf(host.memory_used_bytes, host.memory_bytes)}</td>
    </tr>
  );
  if (!many) {
    return (
      <table className="jp-dtf-table">
        <caption>{trans.__('Hosts now')}</caption>
        <thead>
          <tr>{head}</tr>
        </thead>
        <tbody>{hosts.map(host => row(host))}</tbody>
      </table>
    );
  }
  const spreads = hostSpreads(hosts);
  const figures: [string, SpreadRow['unit'], SpreadRow['spread'] | null][] = [
    [trans.__('CPU, share of its cores'), 'fraction', spreads.cpu],
    [trans.__('Memory'), 'bytes', spreads.memory],
    [trans.__('GPU utilization'), 'fraction', spreads.gpu],
    [trans.__('GPU memory'), 'bytes', spreads.gpuMemory]
  ];
  return (
    <>
      <SpreadTable
        caption={trans.__('All %1 hosts, now', hosts.length)}
        rows={figures.flatMap(([title, unit, spread]) => (spread ? [{ title, unit, spread }] : []))}
        trans={trans}
      />
      <LongTable
        caption={trans.__('Hosts now')}
        head={head}
        columns={4}
        items={rankedHosts(hosts, spreads)}
        row={row}
      />
    </>
  );
}

/** A metric as a column heading: `CPU (cores)`, `Memory`. */
function headingOf(metric: string, trans: TranslationBundle): string {
  const title = metricTitle(metric).replace(/^./, first => first.toUpperCase());
  return unitOf(metric) === 'cores' ? trans.__('%1 (cores)', title) : title;
}
