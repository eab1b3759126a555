import type { TranslationBundle } from '@jupyterlab/translation';
import { checkIcon, copyIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { IconButton } from './controls';

// How long the confirmation is shown, ms.
const SAYS_MS = 1500;

/** Copies a string and confirms that it was copied. */
export function CopyButton(props: {
  /** A description of the copied text, for screen readers. */
  label: string;
  text: string;
  trans: TranslationBundle;
  onCopy: (text: string) => void;
}): React.ReactElement {
  const [copied, setCopied] = React.useState('');
  React.useEffect(() => {
    if (copied !== '') {
      const timer = setTimeout(() => setCopied(''), SAYS_MS);
      return () => clearTimeout(timer);
    }
    return;
  }, [copied]);
  return (
    <>
      <IconButton
        icon={copied === '' ? copyIcon : checkIcon}
        label={props.label}
        onClick={() => {
          props.onCopy(props.text);
          setCopied(props.text);
        }}
      />
      <span role="status" className="jp-dtf-only-read">
        {copied !== '' && props.trans.__('Copied')}
      </span>
    </>
  );
}
