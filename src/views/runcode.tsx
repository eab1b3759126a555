import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Origin, Source, Submitted } from '../api/schema';
import { CopyButton } from './copybutton';

/** The origin of a run apart from its code: versions, commit, directory, with their names; unknown ones are omitted. */
export function madeOf(origin: Origin): [string, string][] {
  const { versions, commit, branch, directory } = origin;
  const facts: [string, string][] = [
    ['commit', commit],
    ['branch', branch],
    ['directory', directory],
    ...Object.entries(versions)
  ];
  return facts.filter(([, value]) => value !== '');
}

/** The origin as text, one line for each item. */
export function madeOfText(origin: Origin): string {
  return madeOf(origin)
    .map(([name, value]) => `${name} ${value}\n`)
    .join('');
}

/** The origin of a run: its code, its design, versions and commit. */
export function RunCode(props: {
  origin: Origin;
  /** Null: not kept; undefined: not received yet. */
  submitted: Submitted | null | undefined;
  trans: TranslationBundle;
  onCopy: (text: string) => void;
}): React.ReactElement {
  const { origin, submitted, trans, onCopy } = props;
  const facts = madeOf(origin);
  const code = submitted?.code ?? [];
  return (
    <div className="jp-dtf-code">
      {facts.length > 0 && (
        <section aria-label={trans.__('Versions and commit')}>
          <h3>
            {trans.__('Versions and commit')}{' '}
            <CopyButton
              label={trans.__('Copy the versions and the commit')}
              text={madeOfText(origin)}
              trans={trans}
              onCopy={onCopy}
            />
          </h3>
          <dl className="jp-dtf-code-facts">
            {facts.map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  {value}
                  {name === 'commit' && (
                    <CopyButton label={trans.__('Copy the commit')} text={value} trans={trans} onCopy={onCopy} />
                  )}
                </dd>
              </div>
            ))}
          </dl>
        </section>
      )}
      {submitted === undefined && (
        <p className="jp-dtf-faint" role="status">
          {trans.__('Looking for the code…')}
        </p>
      )}
      {submitted !== undefined && code.length === 0 && (
        <p className="jp-dtf-faint">
          {trans.__(
            'The code is not in this run’s record: its source was not available, as in interactive Python, or JUPYTER_DTF_KEEP_CODE was 0.'
          )}
        </p>
      )}
      {code.map((piece, index) => (
        <Piece key={index} piece={piece} trans={trans} onCopy={onCopy} />
      ))}
      {submitted?.design && <Piece piece={submitted.design} trans={trans} onCopy={onCopy} isDesign />}
    </div>
  );
}

/** A piece of code with line numbers, which are not copied with it. A design is folded, since it is long. */
function Piece(props: {
  piece: Source;
  trans: TranslationBundle;
  onCopy: (text: string) => void;
  isDesign?: boolean;
}): React.ReactElement {
  const { piece, trans, onCopy, isDesign } = props;
  const [open, setOpen] = React.useState(!isDesign);
  const id = React.useId();
  const lines = React.useMemo(() => piece.text.replace(/\n$/, '').split('\n'), [piece]);
  const name = isDesign ? trans.__('Design %1', piece.name) : piece.name;
  return (
    <section aria-label={name}>
      <h3>
        <button
          type="button"
          className="jp-dtf-section-title"
          aria-expanded={open}
          aria-controls={id}
          onClick={() => setOpen(!open)}
        >
          <code>{name}</code>
        </button>{' '}
        <span className="jp-dtf-faint">{trans._n('%1 line', '%1 lines', lines.length)}</span>{' '}
        <CopyButton label={trans.__('Copy %1', name)} text={piece.text} trans={trans} onCopy={onCopy} />
      </h3>
      <div id={id} hidden={!open}>
        {open && (
          <pre className="jp-dtf-code-text" tabIndex={0} role="region" aria-label={trans.__('Lines of %1', name)}>
            {lines.map((line, index) => (
              <span key={index} className="jp-dtf-code-line" data-number={index + 1}>
                {line}
                {'\n'}
              </span>
            ))}
          </pre>
        )}
      </div>
    </section>
  );
}
