import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { RunInfo } from '../../api/schema';
import { compareRuns } from '../../model/runtable';
import { ComparedHeads, Differences } from './differencestable';

/** Runs side by side: parameters, metrics, versions, and everything else that is known about them. */
export function Comparison(
  props: ComparedHeads & { runs: readonly RunInfo[]; now: number; trans: TranslationBundle }
): React.ReactElement {
  const { runs, trans } = props;
  const lines = React.useMemo(() => compareRuns(runs), [runs]);
  return (
    <Differences
      {...props}
      lines={lines}
      label={trans.__('Parameters')}
      none={trans.__('These runs do not differ in anything that is recorded.')}
    />
  );
}
