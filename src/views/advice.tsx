import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ServerHealth } from '../model/server';
import { SmallButton } from './basics';

/** What is wrong with the server extension, and what to do about it. Nothing while all is well. */
export function Advice(props: {
  health: ServerHealth;
  serverVersion: string;
  pageVersion: string;
  trans: TranslationBundle;
  onRetry: () => void;
}): React.ReactElement | null {
  const { health, trans } = props;
  if (health === 'ok' || health === 'connecting') {
    return null;
  }
  return (
    <div className="jp-dtf-advice" role="status" data-health={health}>
      {health === 'offline' && <p>{trans.__('The Jupyter server does not answer. Trying again by itself.')}</p>}
      {health === 'refused' && <p>{trans.__('The Jupyter server does not let you use jupyter_dtf. Log in again.')}</p>}
      {health === 'missing' && (
        <>
          <p>{trans.__('The Jupyter server runs without the jupyter_dtf server extension. Enable it and restart:')}</p>
          <pre>jupyter server extension enable jupyter_dtf</pre>
        </>
      )}
      {health === 'stale' && (
        <p>
          {trans.__(
            'The server runs jupyter_dtf %1, this page was made for %2. Restart the Jupyter server, then reload the page.',
            props.serverVersion,
            props.pageVersion
          )}
        </p>
      )}
      <SmallButton onClick={props.onRetry}>{trans.__('Try again')}</SmallButton>
    </div>
  );
}
