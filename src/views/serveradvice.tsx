import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { OLDEST, PROTOCOL } from '../api/schema';
import type { ServerHealth } from '../model/server';
import { SmallButton } from './controls';

const NGINX = `proxy_http_version 1.1;
proxy_set_header Upgrade $http_upgrade;
proxy_set_header Connection "upgrade";`;

function numbers(oldest: number, newest: number): string {
  return oldest === newest ? `${newest}` : `${oldest}–${newest}`;
}

/** Explains a problem with the server extension and its solution. Renders nothing if there is no problem. */
export function Advice(props: {
  health: ServerHealth;
  serverVersion: string;
  serverProtocol: number;
  serverOldest: number;
  pageVersion: string;
  socketUrl: string;
  trans: TranslationBundle;
  onRetry: () => void;
  onReload: () => void;
}): React.ReactElement | null {
  const { health, trans } = props;
  if (health === 'ok' || health === 'connecting') {
    return null;
  }
  return (
    <div className="jp-dtf-advice" role="status" data-health={health}>
      {health === 'offline' && <p>{trans.__('The Jupyter server does not respond. Retrying automatically.')}</p>}
      {health === 'refused' && <p>{trans.__('The Jupyter server does not let you use jupyter_dtf. Log in again.')}</p>}
      {health === 'missing' && (
        <>
          <p>{trans.__('The Jupyter server runs without the jupyter_dtf server extension. Enable it and restart:')}</p>
          <pre>jupyter server extension enable jupyter_dtf</pre>
          <p>{trans.__('If the extension is not found, install jupyter_dtf in the environment of that server.')}</p>
        </>
      )}
      {health === 'blocked' && (
        <>
          <p>
            {trans.__(
              'The Jupyter server responds, but its WebSocket cannot be opened: a proxy or a filter between the server and this page blocks it. It must allow WebSocket connections to'
            )}
          </p>
          <pre>{props.socketUrl}</pre>
          <p>{trans.__('With nginx, use this configuration:')}</p>
          <pre>{NGINX}</pre>
        </>
      )}
      {health === 'stale' && (
        <p>
          {trans.__(
            'The server runs jupyter_dtf %1, but this page requires %2. Restart the Jupyter server, then reload the page.',
            props.serverVersion,
            props.pageVersion
          )}
        </p>
      )}
      {health === 'foreign' && (
        <p>
          {trans.__(
            'The server (jupyter_dtf %1) speaks protocol %2, but this page (jupyter_dtf %3) speaks %4: they are incompatible.',
            props.serverVersion,
            numbers(props.serverOldest, props.serverProtocol),
            props.pageVersion,
            numbers(OLDEST, PROTOCOL)
          )}{' '}
          {props.serverProtocol > PROTOCOL
            ? trans.__(
                'Reload the page so that it has the same version as the server. Save your work first; kernels and clusters keep running.'
              )
            : trans.__(
                'Restart the Jupyter server so that it runs the same version as this page. Clusters keep running.'
              )}
        </p>
      )}
      {health === 'foreign' && props.serverProtocol > PROTOCOL ? (
        <SmallButton onClick={props.onReload}>{trans.__('Reload the page')}</SmallButton>
      ) : (
        <SmallButton onClick={props.onRetry}>{trans.__('Try again')}</SmallButton>
      )}
    </div>
  );
}
