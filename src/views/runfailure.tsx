import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { RunInfo } from '../api/schema';
import { ownLine, tracebackOf } from '../model/traceback';
import { reason } from '../model/runstate';

/** Why a run failed: in a sentence, the line of the user's code, and the traceback. */
export function Failure(props: { run: RunInfo; trans: TranslationBundle }): React.ReactElement {
  const { run, trans } = props;
  const why = reason(run);
  const traceback = tracebackOf(run);
  const own = ownLine(traceback);
  return (
    <div className="jp-dtf-failure" role="alert">
      <p className="jp-dtf-problem">{why === '' ? trans.__('The run failed for an unknown reason.') : why}</p>
      {own && (
        <p>
          <span className="jp-dtf-faint">
            {own.file === '' ? trans.__('line %1', own.line) : trans.__('%1, line %2', own.file, own.line)}
          </span>{' '}
          <code>{own.code}</code>
        </p>
      )}
      {traceback !== '' && (
        <details>
          <summary>{trans.__('Traceback')}</summary>
          <pre tabIndex={0}>{traceback}</pre>
        </details>
      )}
    </div>
  );
}
