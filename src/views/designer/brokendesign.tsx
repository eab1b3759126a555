import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { DesignError, OlderDesign } from '../../model/designtext';
import { SmallButton } from '../controls';

/** Shown instead of the design while its text is invalid. */
export function BrokenDesign(props: {
  error: DesignError;
  /** Why the server, which converts designs of older versions, could not be reached. */
  failure: string;
  canUndo: boolean;
  onOpenText: (line: number, column: number) => void;
  onUndo: () => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { error, failure, trans } = props;
  if (error instanceof OlderDesign) {
    return (
      <p className="jp-dtf-none jp-dtf-faint" role="status">
        {failure === '' ? trans.__('Reading a design of an older version…') : `${error.message}. ${failure}`}
      </p>
    );
  }
  return (
    <div className="jp-dtf-broken" role="alert">
      <h3>{trans.__('This file cannot be shown as a design')}</h3>
      <p className="jp-dtf-problem">{error.message}</p>
      <p className="jp-dtf-faint">{trans.__('Line %1, column %2', error.line, error.column)}</p>
      <div className="jp-dtf-detail-buttons">
        <SmallButton accent onClick={() => props.onOpenText(error.line, error.column)}>
          {trans.__('Open as text at line %1', error.line)}
        </SmallButton>
        {props.canUndo && <SmallButton onClick={props.onUndo}>{trans.__('Undo')}</SmallButton>}
      </div>
    </div>
  );
}
