import type { TranslationBundle } from '@jupyterlab/translation';
import { Button, caretDownIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { ClusterInfo } from '../api/schema';
import { dtfIcon } from '../icons';
import { formatJobs } from '../model/format';
import { StateMark } from './controls';
import { stateText } from './localizedtext';

/** A notebook's cluster as a button: its state, its name and its tasks; `No cluster` without a name. */
export function NotebookClusterButton(props: {
  name: string;
  /** Undefined if there is no cluster of that name. */
  cluster: ClusterInfo | undefined;
  /** Whether the list of clusters has been received. */
  ready: boolean;
  trans: TranslationBundle;
  onClick: (at: HTMLElement) => void;
}): React.ReactElement {
  const { name, cluster, trans } = props;
  let words = '';
  if (cluster) {
    words = cluster.state === 'running' ? formatJobs(cluster.jobs) : stateText(cluster.state, trans);
  } else if (props.ready) {
    words = trans.__('not running');
  }
  const title =
    name === ''
      ? trans.__('This notebook has no cluster: choose or start one')
      : trans.__("This notebook's cluster: %1", [name, words].filter(word => word !== '').join(', '));
  return (
    <Button
      className="jp-ToolbarButtonComponent"
      title={title}
      aria-label={title}
      aria-haspopup="menu"
      onClick={(event: React.MouseEvent<HTMLButtonElement>) => props.onClick(event.currentTarget)}
    >
      {name === '' ? (
        <dtfIcon.react tag="span" className="jp-dtf-icon" />
      ) : cluster ? (
        <StateMark state={cluster.state} trans={trans} />
      ) : (
        <span className="jp-dtf-state" aria-hidden="true">
          ○
        </span>
      )}
      <span className="jp-ToolbarButtonComponent-label">{name === '' ? trans.__('No cluster') : name}</span>
      {name !== '' && words !== '' && <span className="jp-ToolbarButtonComponent-label jp-dtf-faint">{words}</span>}
      <caretDownIcon.react tag="span" className="jp-dtf-icon" />
    </Button>
  );
}
