import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { ClusterRequest, DEFAULTS, FieldInfo, KindInfo, Preview, Problem } from '../api/schema';
import { messageOf } from '../model/errormessage';
import { JobRow, JobRows, jobsOf, Problems, rowsOf } from './jobrows';
import { OptionField, optionText, optionValue } from './optionfield';

const PREVIEW_DELAY_MS = 250;

/** The form's actions. All functions reject with an error whose message, and field if it has one, are shown. */
export interface NewClusterActions {
  preview(request: ClusterRequest): Promise<Preview>;
  start(request: ClusterRequest): Promise<void>;
  keep(name: string, request: ClusterRequest): Promise<void>;
  design(request: ClusterRequest): void;
  cancel(): void;
}

/** An error as a problem of the field that it concerns. */
export function problemOf(error: unknown): Problem {
  const { field } = error as { field?: unknown };
  return {
    field: typeof field === 'string' ? field : '',
    message: messageOf(error),
    level: 'error'
  };
}

/** The form for a new cluster: the settings on the left, a preview on the right. */
export function NewCluster(props: {
  kinds: readonly KindInfo[];
  initial?: ClusterRequest;
  actions: NewClusterActions;
  trans: TranslationBundle;
}): React.ReactElement {
  const { kinds, initial, actions, trans } = props;
  const id = React.useId();
  const [kind, setKind] = React.useState(
    initial?.kind ?? kinds.find(other => other.available)?.kind ?? DEFAULTS.ClusterRequest.kind
  );
  const [name, setName] = React.useState(initial?.name ?? '');
  const [rows, setRows] = React.useState<JobRow[]>(rowsOf(initial?.jobs ?? { worker: 2 }));
  const [keep, setKeep] = React.useState(initial?.keep ?? false);
  const [grace, setGrace] = React.useState(String(initial?.grace_s ?? DEFAULTS.ClusterRequest.grace_s));
  const [texts, setTexts] = React.useState<Record<string, string>>({});
  const [preview, setPreview] = React.useState<Preview | null>(null);
  const [more, setMore] = React.useState<readonly FieldInfo[]>([]);
  const [refused, setRefused] = React.useState<Problem | null>(null);
  const [busy, setBusy] = React.useState(false);
  const [kept, setKept] = React.useState('');

  const info = kinds.find(other => other.kind === kind);
  const fields = React.useMemo(() => [...(info?.fields ?? []), ...more], [info, more]);
  const request = React.useMemo((): ClusterRequest => {
    const options: Record<string, unknown> = {};
    for (const field of fields) {
      const text = texts[field.name];
      const value = text === undefined ? initial?.options?.[field.name] : optionValue(field, text);
      if (value !== undefined) {
        options[field.name] = value;
      }
    }
    const grace_s = grace.trim() === '' ? DEFAULTS.ClusterRequest.grace_s : Number(grace);
    return { name: name.trim(), kind, jobs: jobsOf(rows), options, keep, grace_s };
  }, [fields, texts, initial, name, kind, rows, keep, grace]);

  const duplicate = rows.find((row, index) => rows.findIndex(other => other.job.trim() === row.job.trim()) < index);

  const ask = actions.preview;
  React.useEffect(() => {
    let stale = false;
    const timer = setTimeout(() => {
      ask(request)
        .then(answer => {
          if (!stale) {
            setPreview(answer);
            setMore(before => (JSON.stringify(before) === JSON.stringify(answer.fields) ? before : answer.fields));
          }
        })
        .catch((error: unknown) => {
          if (!stale) {
            setPreview(before => ({
              cluster_spec: before?.cluster_spec ?? {},
              tf_config: before?.tf_config ?? {},
              problems: [problemOf(error)],
              hosts: before?.hosts ?? [],
              script: before?.script ?? '',
              fields: before?.fields ?? []
            }));
          }
        });
      setRefused(null);
    }, PREVIEW_DELAY_MS);
    return () => {
      stale = true;
      clearTimeout(timer);
    };
  }, [request, ask]);

  const problems: Problem[] = [...(preview?.problems ?? []), ...(refused ? [refused] : [])];
  if (duplicate) {
    problems.push({
      field: `jobs.${duplicate.job}`,
      message: trans.__('A job must appear only once, got %1 twice', duplicate.job),
      level: 'error'
    });
  }
  const placed = new Set([
    'name',
    'kind',
    'jobs',
    'grace_s',
    ...rows.map(row => `jobs.${row.job}`),
    ...fields.map(field => `options.${field.name}`)
  ]);
  const elsewhere = problems.filter(problem => !placed.has(problem.field));
  const wrong = problems.some(problem => problem.level === 'error');

  const attempt = (what: () => Promise<void>) => {
    setBusy(true);
    what()
      .catch((error: unknown) => setRefused(problemOf(error)))
      .finally(() => setBusy(false));
  };
  const saveTemplate = () => {
    if (request.name === '') {
      setRefused({ field: 'name', message: trans.__('A template needs a name.'), level: 'error' });
      return;
    }
    attempt(async () => {
      await actions.keep(request.name!, request);
      setKept(request.name!);
    });
  };

  return (
    <form
      className="jp-dtf-form"
      onSubmit={event => {
        event.preventDefault();
        if (!wrong && !busy) {
          attempt(() => actions.start(request));
        }
      }}
    >
      <div className="jp-dtf-form-columns">
        <div className="jp-dtf-form-fields">
          <div className="jp-dtf-field">
            <label htmlFor={`${id}-kind`}>{trans.__('Kind')}</label>
            <select
              id={`${id}-kind`}
              className="jp-mod-styled"
              value={kind}
              onChange={event => {
                setKind(event.target.value);
                setMore([]);
              }}
            >
              {kinds.map(other => (
                <option key={other.kind} value={other.kind} disabled={!other.available}>
                  {other.available ? other.title : trans.__('%1 (needs %2)', other.title, other.missing)}
                </option>
              ))}
            </select>
            <Problems problems={problems} field="kind" id={`${id}-kind-problems`} />
          </div>
          <div className="jp-dtf-field">
            <label htmlFor={`${id}-name`}>{trans.__('Name')}</label>
            <input
              id={`${id}-name`}
              type="text"
              className="jp-mod-styled"
              value={name}
              placeholder={trans.__('chosen automatically')}
              aria-invalid={problems.some(problem => problem.field === 'name')}
              aria-describedby={`${id}-name-problems`}
              onChange={event => setName(event.target.value)}
            />
            <Problems problems={problems} field="name" id={`${id}-name-problems`} />
          </div>
          <JobRows rows={rows} problems={problems} trans={trans} onChange={setRows} />
          {fields.map(field => (
            <OptionField
              key={`${kind}/${field.name}`}
              field={field}
              text={texts[field.name] ?? optionText(field, initial?.options?.[field.name] ?? field.default)}
              problems={problems}
              onChange={text => setTexts({ ...texts, [field.name]: text })}
            />
          ))}
          <div className="jp-dtf-field jp-mod-check">
            <input id={`${id}-keep`} type="checkbox" checked={keep} onChange={event => setKeep(event.target.checked)} />
            <label htmlFor={`${id}-keep`}>
              {trans.__('Keep running until stopped, even when nobody is connected')}
            </label>
          </div>
          <div className="jp-dtf-field">
            <label htmlFor={`${id}-grace`}>{trans.__('Ends when nobody has been connected for')}</label>
            <span className="jp-dtf-field-input">
              <input
                id={`${id}-grace`}
                type="number"
                className="jp-mod-styled"
                min={0}
                step="any"
                disabled={keep}
                value={grace}
                aria-invalid={problems.some(problem => problem.field === 'grace_s')}
                aria-describedby={`${id}-grace-help ${id}-grace-problems`}
                onChange={event => setGrace(event.target.value)}
              />
              <span className="jp-dtf-faint">{trans.__('seconds')}</span>
            </span>
            <span id={`${id}-grace-help`} className="jp-dtf-faint jp-dtf-field-help">
              {trans.__(
                'A Jupyter server, a kernel or a terminal that shows the cluster is connected to it. The cluster never ends during a run. In Python: grace_s.'
              )}
            </span>
            <Problems problems={problems} field="grace_s" id={`${id}-grace-problems`} />
          </div>
        </div>
        <WhatItMakes preview={preview} trans={trans} />
      </div>
      <div className="jp-dtf-form-elsewhere" role="status">
        {elsewhere.map(problem => (
          <div key={problem.message} className={problem.level === 'error' ? 'jp-dtf-problem' : 'jp-dtf-note'}>
            {problem.message}
          </div>
        ))}
        {kept !== '' && <div className="jp-dtf-faint">{trans.__('Saved as the template %1.', kept)}</div>}
      </div>
      <div className="jp-dtf-form-buttons">
        <button type="button" className="jp-mod-styled jp-mod-reject" onClick={actions.cancel}>
          {trans.__('Cancel')}
        </button>
        <button
          type="button"
          className="jp-mod-styled"
          disabled={busy || wrong}
          onClick={() => actions.design({ ...request, hosts: preview?.hosts ?? [] })}
        >
          {trans.__('Open in designer')}
        </button>
        <button type="button" className="jp-mod-styled" disabled={busy || wrong} onClick={saveTemplate}>
          {trans.__('Save as template')}
        </button>
        <button type="submit" className="jp-mod-styled jp-mod-accept" disabled={busy || wrong}>
          {trans.__('Start')}
        </button>
      </div>
    </form>
  );
}

/** The ClusterSpec, and the TF_CONFIG of a task. */
function WhatItMakes(props: { preview: Preview | null; trans: TranslationBundle }): React.ReactElement {
  const { preview, trans } = props;
  const [chosen, setChosen] = React.useState('');
  const tasks = Object.keys(preview?.tf_config ?? {});
  const task = tasks.includes(chosen) ? chosen : (tasks[0] ?? '');
  const id = React.useId();
  return (
    <div className="jp-dtf-preview">
      <h3 id={`${id}-spec`}>ClusterSpec</h3>
      <pre tabIndex={0} aria-labelledby={`${id}-spec`}>
        {preview ? JSON.stringify(preview.cluster_spec, null, 2) : '…'}
      </pre>
      <h3 id={`${id}-config`}>
        TF_CONFIG{' '}
        <select
          value={task}
          aria-label={trans.__('Task whose TF_CONFIG is shown')}
          onChange={event => setChosen(event.target.value)}
        >
          {tasks.map(name => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </h3>
      <pre tabIndex={0} aria-labelledby={`${id}-config`}>
        {task === '' ? '…' : pretty(preview?.tf_config[task] ?? '')}
      </pre>
      {preview?.script ? (
        <>
          <h3 id={`${id}-script`}>{trans.__('Submitted script')}</h3>
          <pre tabIndex={0} aria-labelledby={`${id}-script`}>
            {preview.script}
          </pre>
        </>
      ) : null}
      <p className="jp-dtf-faint">{trans.__('A port shown as 0 is chosen when a run starts.')}</p>
    </div>
  );
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}
