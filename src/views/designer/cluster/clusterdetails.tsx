import type { TranslationBundle } from '@jupyterlab/translation';
import { copyIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { ClusterDesign, DesignProblem, DesignReport, FieldInfo, HostDesign, KindInfo } from '../../../api/schema';
import { DesignTask, devicesOf, HostDevice } from '../../../model/clusterdesign';
import { formatBytes, formatBytesOf, formatPercent } from '../../../model/format';
import { Bar, IconButton, SmallButton } from '../../controls';
import { OptionField, optionText, optionValue } from '../../optionfield';
import { CommitField } from '../commitfield';

const GIB = 2 ** 30;

/** Edits of the cluster, each a single undoable step. */
export interface ClusterEdits {
  setName(name: string): void;
  setKind(kind: string): void;
  setOption(name: string, value: unknown): void;
  changeHost(host: string, change: Partial<HostDesign>): void;
  removeHost(host: string): void;
  putTask(task: string, device: HostDevice): void;
  freeTask(task: string): void;
  capTask(task: string, memoryBytes: number): void;
}

interface DetailsProps {
  cluster: Readonly<ClusterDesign>;
  report: DesignReport | null;
  problems: readonly DesignProblem[];
  readOnly: boolean;
  edits: ClusterEdits;
  copy: (text: string) => void;
  trans: TranslationBundle;
}

/** The cluster itself: name, kind and options, and the resulting ClusterSpec. `problems`: its problems. */
export function ClusterDetails(props: DetailsProps & { kinds: readonly KindInfo[] }): React.ReactElement {
  const { cluster, report, problems, readOnly, edits, kinds, trans } = props;
  const id = React.useId();
  const info = kinds.find(({ kind }) => kind === cluster.kind);
  const own = problems.map(problem => ({ ...problem, field: problem.field.replace(/^cluster\./, '') }));
  const said = (field: string) => own.find(problem => problem.field === field)?.message ?? '';
  // If hosts are drawn, the drawing determines their number.
  const fields = (info?.fields ?? []).filter(field => !field.counts_hosts || cluster.hosts.length === 0);
  const atFields = new Set(['name', 'kind', ...fields.map(({ name }) => `options.${name}`)]);
  return (
    <>
      <h3>{trans.__('Cluster')}</h3>
      <Problems problems={own.filter(({ field }) => !atFields.has(field))} />
      <CommitField
        label={trans.__('Name')}
        text={cluster.name}
        placeholder={trans.__('name of the file')}
        disabled={readOnly}
        problem={said('name')}
        read={typed => ({ value: typed.trim() })}
        onCommit={name => edits.setName(name)}
      />
      <div className="jp-dtf-commit">
        <label htmlFor={`${id}-kind`}>{trans.__('Kind')}</label>
        <select
          id={`${id}-kind`}
          value={cluster.kind}
          disabled={readOnly}
          onChange={event => edits.setKind(event.target.value)}
        >
          {!info && <option value={cluster.kind}>{cluster.kind}</option>}
          {kinds.map(kind => (
            <option key={kind.kind} value={kind.kind} disabled={!kind.available && kind.kind !== cluster.kind}>
              {kind.available ? kind.title : trans.__('%1 (needs %2)', kind.title, kind.missing)}
            </option>
          ))}
        </select>
        <div className="jp-dtf-problem">{said('kind')}</div>
      </div>
      {fields.map(field => (
        <Option
          key={`${cluster.kind}/${field.name}/${optionText(field, cluster.options[field.name] ?? field.default)}`}
          field={field}
          value={cluster.options[field.name]}
          problems={own}
          disabled={readOnly}
          onCommit={value => edits.setOption(field.name, value)}
        />
      ))}
      <Copyable
        title="ClusterSpec"
        text={report ? JSON.stringify(report.cluster_spec, null, 2) : ''}
        copy={props.copy}
        trans={trans}
      />
      <p className="jp-dtf-faint">{trans.__('A port shown as 0 is chosen when a run starts.')}</p>
    </>
  );
}

/** An option of the kind, committed when the field loses focus or a choice is made. */
function Option(props: {
  field: FieldInfo;
  value: unknown;
  problems: readonly DesignProblem[];
  disabled: boolean;
  onCommit: (value: unknown) => void;
}): React.ReactElement {
  const { field, value, problems, onCommit } = props;
  const before = optionText(field, value ?? field.default);
  const [text, setText] = React.useState(before);
  const commit = (typed: string) => {
    if (typed !== before) {
      onCommit(optionValue(field, typed));
    }
  };
  const atOnce = field.type === 'boolean' || field.type === 'choice';
  return (
    <fieldset
      className="jp-dtf-option"
      disabled={props.disabled}
      onBlur={() => commit(text)}
      onKeyDown={event => event.key === 'Enter' && commit(text)}
    >
      <OptionField
        field={field}
        text={text}
        problems={problems}
        onChange={typed => {
          setText(typed);
          if (atOnce) {
            commit(typed);
          }
        }}
      />
    </fieldset>
  );
}

/** One task: its device, its memory, and the TF_CONFIG that it will receive. */
export function TaskDetails(props: DetailsProps & { task: DesignTask; colour: string }): React.ReactElement {
  const { cluster, task, report, readOnly, edits, trans } = props;
  const id = React.useId();
  const devices = devicesOf(cluster);
  const device = report?.devices[task.task] ?? '';
  const config = report?.tf_config[task.task] ?? '';
  const load = report?.prediction?.devices.find(other => other.device === device);
  const { place } = task;
  const at = devices.findIndex(other => other.host === place?.host && other.device === place.device);
  const memory = devices[at]?.memory_bytes ?? 0;
  return (
    <>
      <h3>
        <span className="jp-dtf-swatch" style={{ background: props.colour }} />
        {task.task}
      </h3>
      <Problems problems={props.problems} />
      {device !== '' && (
        <p className="jp-dtf-device-name">
          <code>{device}</code>
          <IconButton icon={copyIcon} label={trans.__('Copy %1', device)} onClick={() => props.copy(device)} />
        </p>
      )}
      <div className="jp-dtf-commit">
        <label htmlFor={`${id}-place`}>{trans.__('Runs on')}</label>
        <select
          id={`${id}-place`}
          value={at}
          disabled={readOnly}
          onChange={event => {
            const chosen = devices[Number(event.target.value)];
            if (chosen) {
              edits.putTask(task.task, chosen);
            } else {
              edits.freeTask(task.task);
            }
          }}
        >
          <option value={-1}>
            {place && at < 0 ? `${place.host} ${place.device}` : trans.__('assigned automatically')}
          </option>
          {devices.map((other, index) => (
            <option key={`${other.host}/${other.device}`} value={index}>
              {other.host} {other.device}
            </option>
          ))}
        </select>
      </div>
      {place && (
        <CommitField
          label={trans.__('Memory cap')}
          text={place.memory_bytes > 0 ? gibText(place.memory_bytes) : ''}
          placeholder={memory > 0 ? trans.__('all of %1', formatBytes(memory)) : trans.__('all')}
          unit="GiB"
          step={1}
          disabled={readOnly}
          read={typed => readGib(typed, trans)}
          onCommit={bytes => edits.capTask(task.task, bytes)}
        />
      )}
      {load && (
        <dl className="jp-dtf-facts">
          <dt>{trans.__('Memory needed')}</dt>
          <dd>
            {load.memory_limit_bytes > 0
              ? formatBytesOf(load.memory_bytes, load.memory_limit_bytes)
              : formatBytes(load.memory_bytes)}
            {load.memory_limit_bytes > 0 && (
              <Bar fraction={load.memory_bytes / load.memory_limit_bytes} label={trans.__('Memory needed')} />
            )}
          </dd>
          <dt>{trans.__('Share of the step')}</dt>
          <dd>{formatPercent(load.share)}</dd>
          <dt>{trans.__('Sends per step')}</dt>
          <dd>{formatBytes(load.sent_bytes)}</dd>
          <dt>{trans.__('Receives per step')}</dt>
          <dd>{formatBytes(load.received_bytes)}</dd>
        </dl>
      )}
      <Copyable title="TF_CONFIG" text={pretty(config)} copied={config} copy={props.copy} trans={trans} />
    </>
  );
}

/** One drawn host: its name and devices. */
export function HostDetails(props: DetailsProps & { host: HostDesign }): React.ReactElement {
  const { cluster, host, readOnly, edits, trans } = props;
  const change = (what: Partial<HostDesign>) => edits.changeHost(host.name, what);
  const gpu = (number: number, memory_bytes: number) =>
    change({ gpus: host.gpus.map((other, index) => (index === number ? memory_bytes : other)) });
  return (
    <>
      <h3>{trans.__('Host %1', host.name)}</h3>
      <Problems problems={props.problems} />
      <CommitField
        label={trans.__('Name')}
        text={host.name}
        disabled={readOnly}
        read={typed => {
          const name = typed.trim();
          const taken = cluster.hosts.some(other => other.name === name);
          return name !== '' && !taken
            ? { value: name }
            : { problem: trans.__('The name of a host must be unique and not empty, got %1', JSON.stringify(name)) };
        }}
        onCommit={name => change({ name })}
      />
      <CommitField
        label={trans.__('Cores')}
        text={String(host.cpus)}
        step={1}
        disabled={readOnly}
        read={typed => {
          const cpus = Number(typed);
          return typed.trim() !== '' && Number.isInteger(cpus) && cpus >= 1
            ? { value: cpus }
            : { problem: trans.__('The number of cores must be a whole number of at least 1, got %1', typed) };
        }}
        onCommit={cpus => change({ cpus })}
      />
      <CommitField
        label={trans.__('Memory')}
        text={host.memory_bytes > 0 ? gibText(host.memory_bytes) : ''}
        placeholder={trans.__('not known')}
        unit="GiB"
        step={1}
        disabled={readOnly}
        read={typed => readGib(typed, trans)}
        onCommit={memory_bytes => change({ memory_bytes })}
      />
      {host.gpus.map((memory, number) => (
        <CommitField
          key={number}
          label={trans.__('Memory of GPU %1', number)}
          text={memory > 0 ? gibText(memory) : ''}
          placeholder={trans.__('not known')}
          unit="GiB"
          step={1}
          disabled={readOnly}
          read={typed => readGib(typed, trans)}
          onCommit={bytes => gpu(number, bytes)}
        />
      ))}
      {!readOnly && (
        <div className="jp-dtf-detail-buttons">
          <SmallButton onClick={() => change({ gpus: [...host.gpus, host.gpus.at(-1) ?? 0] })}>
            {trans.__('Add a GPU')}
          </SmallButton>
          {host.gpus.length > 0 && (
            <SmallButton onClick={() => change({ gpus: host.gpus.slice(0, -1) })}>
              {trans.__('Remove GPU %1', host.gpus.length - 1)}
            </SmallButton>
          )}
          <SmallButton onClick={() => edits.removeHost(host.name)}>{trans.__('Remove the host')}</SmallButton>
        </div>
      )}
    </>
  );
}

function Problems(props: { problems: readonly DesignProblem[] }): React.ReactElement | null {
  return props.problems.length === 0 ? null : (
    <div role="alert">
      {props.problems.map(({ message, level }) => (
        <p key={message} className={level === 'error' ? 'jp-dtf-problem' : 'jp-dtf-note'}>
          {message}
        </p>
      ))}
    </div>
  );
}

/** A string that can be copied. `copied`: the string to copy, if it is formatted differently from the displayed one. */
function Copyable(props: {
  title: string;
  text: string;
  copied?: string;
  copy: (text: string) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { title, text, copied, trans } = props;
  const id = React.useId();
  return (
    <div className="jp-dtf-copyable">
      <h4 id={id}>
        {title}
        <IconButton
          icon={copyIcon}
          label={trans.__('Copy %1', title)}
          disabled={text === ''}
          onClick={() => props.copy(copied ?? text)}
        />
      </h4>
      <pre tabIndex={0} aria-labelledby={id}>
        {text === '' ? '…' : text}
      </pre>
    </div>
  );
}

function gibText(bytes: number): string {
  return String(Number((bytes / GIB).toFixed(3)));
}

/** Convert a typed number of GiB to bytes; an empty text is 0. */
function readGib(typed: string, trans: TranslationBundle): { value: number } | { problem: string } {
  const gib = Number(typed);
  return Number.isFinite(gib) && gib >= 0
    ? { value: Math.round(gib * GIB) }
    : { problem: trans.__('Memory must be a number of GiB of at least 0, got %1', typed) };
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
