import type { TranslationBundle } from '@jupyterlab/translation';
import { addIcon, runIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { designIcon } from '../icons';
import { IconButton, Section } from './controls';

/** The designs section of the panel: the designs in the folder that the file browser shows. */
export function Designs(props: {
  paths: readonly string[];
  trans: TranslationBundle;
  onNew: () => void;
  onOpen: (path: string) => void;
  onStart: (path: string) => void;
}): React.ReactElement {
  const { paths, trans } = props;
  return (
    <Section
      title={trans.__('Designs')}
      tools={<IconButton icon={addIcon} label={trans.__('New design')} onClick={props.onNew} />}
    >
      {paths.length === 0 && (
        <p className="jp-dtf-faint">
          {trans.__('A design is a drawing of a cluster, and of a model placed on it. There is none in this folder.')}
        </p>
      )}
      <ul className="jp-dtf-list">
        {paths.map(path => {
          const name = path.split('/').pop()!;
          return (
            <li key={path} className="jp-dtf-row jp-dtf-design" aria-label={trans.__('Design %1', name)}>
              <div className="jp-dtf-row-head">
                <designIcon.react tag="span" className="jp-dtf-icon" />
                <button
                  type="button"
                  className="jp-dtf-link jp-dtf-name"
                  aria-label={trans.__('Open %1', name)}
                  onClick={() => props.onOpen(path)}
                >
                  {name}
                </button>
                <IconButton
                  icon={runIcon}
                  label={trans.__('Start the cluster of %1', name)}
                  onClick={() => props.onStart(path)}
                />
              </div>
            </li>
          );
        })}
      </ul>
    </Section>
  );
}
