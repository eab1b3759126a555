import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { DesignProblem, RunSettings } from '../../../api/schema';
import { CommitField } from '../commitfield';

/**
 * The settings that a step and its prediction depend on, and the epochs; problems appear at the field that they
 * concern.
 */
export function RunFields(props: {
  run: Readonly<RunSettings>;
  problems: readonly DesignProblem[];
  editable: boolean;
  onChange: (label: string, change: Partial<RunSettings>) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { run, problems, editable, onChange, trans } = props;
  const fields: [keyof RunSettings, string][] = [
    ['batch_size', trans.__('batch size')],
    ['microbatches', trans.__('microbatches')],
    ['replicas', trans.__('replicas')],
    ['epochs', trans.__('epochs')]
  ];
  return (
    <div className="jp-dtf-run-fields" role="group" aria-label={trans.__('Training settings')}>
      {fields.map(([name, label]) => (
        <CommitField<number>
          key={name}
          label={label}
          text={String(run[name])}
          step={1}
          disabled={!editable}
          problem={problems.find(({ field }) => field === `run.${name}`)?.message ?? ''}
          read={typed => {
            const value = Number(typed);
            return Number.isSafeInteger(value) && value >= 1
              ? { value }
              : { problem: trans.__('%1 must be a whole number of at least 1, got %2', label, typed) };
          }}
          onCommit={value => onChange(label, { [name]: value })}
        />
      ))}
    </div>
  );
}
