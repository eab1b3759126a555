import { Clipboard } from '@jupyterlab/apputils';
import React from 'react';

import { useSignals } from '../../views/hooks';
import { RunCode } from '../../views/runcode';
import type { DashboardTab, TabProps } from './dashboardtab';

export const codeTab: DashboardTab = {
  id: 'code',
  title: (_, trans) => trans.__('Code'),
  View: RunCodeTab
};

function RunCodeTab({ model, options }: TabProps): React.ReactElement {
  useSignals(model.submittedChanged);
  return (
    <RunCode
      origin={model.info.origin}
      submitted={model.submitted}
      trans={options.trans}
      onCopy={text => Clipboard.copyToSystem(text)}
    />
  );
}
