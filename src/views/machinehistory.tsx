import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { MachinesModel } from '../model/machinefigures';
import { useSignals } from './hooks';

/** The machines of a run's cluster during the run; `children` are the plots. Without a model, the cluster is gone. */
export function MachineHistory(props: {
  machines: MachinesModel | null;
  cluster: string;
  ended: boolean;
  trans: TranslationBundle;
  children?: React.ReactNode;
}): React.ReactElement {
  const { machines, trans } = props;
  const title = React.useId();
  return (
    <section className="jp-dtf-history" aria-labelledby={title}>
      <h3 id={title}>{trans.__('Machines during the run')}</h3>
      {machines ? (
        <>
          <Lack machines={machines} ended={props.ended} trans={trans} />
          {props.children}
        </>
      ) : (
        <p className="jp-dtf-faint">
          {trans.__('The cluster %1 is gone, and so is the data about its machines.', props.cluster)}
        </p>
      )}
    </section>
  );
}

/** Why there are no plots, or why they have ended. */
function Lack(props: { machines: MachinesModel; ended: boolean; trans: TranslationBundle }): React.ReactElement | null {
  const { machines, trans } = props;
  useSignals(machines.changed);
  if (machines.problem !== '') {
    return <p className="jp-dtf-problem">{trans.__('The machines cannot be queried: %1', machines.problem)}</p>;
  }
  if (machines.names.length > 0) {
    return null;
  }
  return (
    <p className="jp-dtf-faint" role="status">
      {machines.isReady && props.ended
        ? trans.__('There is no data about the machines during this run.')
        : trans.__('Waiting for data from the machines…')}
    </p>
  );
}
