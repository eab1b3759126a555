import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { formatPercent, formatValue } from '../model/format';
import { MANY } from '../model/spread';
import { ownOf, STEP_PART_NAMES, type StepPart, type TaskStep } from '../model/stepparts';

/**
 * The parts of each task's training steps, one bar for each task. If there are many tasks, only those whose own work
 * takes longest are shown. `slow` explains why the others wait for a task. Renders nothing if no task has reported.
 */
export function StepParts(props: {
  steps: readonly TaskStep[];
  slow: Readonly<Record<string, string>>;
  trans: TranslationBundle;
}): React.ReactElement | null {
  const { steps, slow, trans } = props;
  const title = React.useId();
  if (steps.length === 0) {
    return null;
  }
  const shown = steps.length > MANY ? [...steps].sort((a, b) => ownOf(b) - ownOf(a)).slice(0, MANY) : steps;
  const longest = Math.max(...shown.map(({ seconds }) => seconds));
  const present = STEP_PART_NAMES.filter(part => steps.some(({ parts }) => (parts[part] ?? 0) > 0));
  const hidden = steps.some(({ parts }) => parts.exchange === undefined);
  return (
    <section className="jp-dtf-step-parts" aria-labelledby={title}>
      <h3 id={title}>{trans.__('Where the time of a step goes, task by task')}</h3>
      <ul className="jp-dtf-part-names" aria-hidden="true">
        {present.map(part => (
          <li key={part}>
            <span className="jp-dtf-part" data-part={part} /> {nameOf(part, trans)}
          </li>
        ))}
      </ul>
      <ul className="jp-dtf-part-bars">
        {shown.map(({ task, parts, seconds, slow: isSlow }) => {
          const words = STEP_PART_NAMES.filter(part => (parts[part] ?? 0) > 0)
            .map(part => `${nameOf(part, trans)} ${wordsOf(parts[part]!, seconds)}`)
            .join(', ');
          const waitedFor = isSlow || slow[task] !== undefined;
          return (
            <li key={task} title={words} data-slow={waitedFor || undefined}>
              <span className="jp-dtf-part-task">{task}</span>
              <span className="jp-dtf-part-bar" role="img" aria-label={`${task}: ${words}`}>
                {boundsOf(parts).map(({ part, start, end }) => (
                  <span
                    key={part}
                    className="jp-dtf-part"
                    data-part={part}
                    style={{ left: `${(100 * start) / longest}%`, width: `${(100 * (end - start)) / longest}%` }}
                  />
                ))}
              </span>
              <span className="jp-dtf-number">{formatValue(seconds, 'seconds')}</span>
              {waitedFor && (
                <span className="jp-dtf-note" title={slow[task]}>
                  {trans.__('the others wait for it')}
                </span>
              )}
            </li>
          );
        })}
      </ul>
      {shown.length < steps.length && (
        <p className="jp-dtf-faint">
          {trans.__('%1 of %2 tasks: those whose own work takes longest.', shown.length, steps.length)}
        </p>
      )}
      {hidden && (
        <p className="jp-dtf-faint">
          {trans.__(
            'TensorFlow communicates inside its own operations, so communication is not measured separately but counted as computing.'
          )}
        </p>
      )}
    </section>
  );
}

function boundsOf(parts: TaskStep['parts']): { part: StepPart; start: number; end: number }[] {
  let at = 0;
  return STEP_PART_NAMES.flatMap(part => {
    const start = at;
    at += parts[part] ?? 0;
    return at > start ? [{ part, start, end: at }] : [];
  });
}

/** `12 ms (34%)` */
function wordsOf(part: number, seconds: number): string {
  return `${formatValue(part, 'seconds')} (${formatPercent(part / seconds)})`;
}

function nameOf(part: StepPart, trans: TranslationBundle): string {
  const names: Record<StepPart, string> = {
    compute: trans.__('computing'),
    input: trans.__('waiting for the batch'),
    exchange: trans.__('exchanging'),
    wait: trans.__('waiting for other tasks'),
    checkpoint: trans.__('taking checkpoints')
  };
  return names[part];
}
