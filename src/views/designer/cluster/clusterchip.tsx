import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { TaskState } from '../../../api/schema';
import type { Said } from '../../../model/designproblems';
import { formatPercent } from '../../../model/format';
import { StateMark } from '../../controls';

/** The MIME type of a dragged task (`worker:1`) or job (`worker`). */
export const TASK_MIME = 'application/x-jupyter-dtf-task';

/** A problem's text, shown next to the item that it concerns. */
export function SaidBeside(props: { said: Said | undefined }): React.ReactElement | null {
  const { said } = props;
  return said ? <p className={said.isError ? 'jp-dtf-problem' : 'jp-dtf-note'}>{said.message}</p> : null;
}

/** The callbacks with which chips are picked up and dropped; the same for tasks and whole jobs. */
export interface ChipHandlers {
  /** Whether nothing can be moved. */
  readonly disabled: boolean;
  /** The task or job that has been picked up with the keyboard; null if none. */
  readonly carried: string | null;
  onSelect(what: string): void;
  /** Handles a key on a chip; true if it was used. */
  onKey(what: string, key: string): boolean;
  /** Called when the focus has left the chip. */
  onLeave(what: string): void;
}

/**
 * Something that can be dragged onto a device, or picked up with Enter, moved with the arrow keys and dropped with
 * Enter.
 */
export function Chip(props: {
  what: string;
  label: string;
  handlers: ChipHandlers;
  className: string;
  selected?: boolean;
  colour?: string;
  title?: string;
  children: React.ReactNode;
}): React.ReactElement {
  const { what, handlers } = props;
  return (
    // Not a <button>: Firefox does not drag those.
    <div
      role="button"
      tabIndex={0}
      className={`jp-dtf-chip ${props.className}`}
      style={props.colour === undefined ? undefined : ({ '--jp-dtf-task': props.colour } as React.CSSProperties)}
      data-what={what}
      data-carried={handlers.carried === what}
      aria-label={props.label}
      aria-pressed={props.selected ?? false}
      aria-roledescription={handlers.disabled ? undefined : 'draggable'}
      title={props.title}
      draggable={!handlers.disabled}
      onDragStart={event => {
        event.dataTransfer.setData(TASK_MIME, what);
        event.dataTransfer.effectAllowed = 'move';
      }}
      onClick={() => handlers.onSelect(what)}
      onFocus={() => handlers.onSelect(what)}
      onBlur={() => handlers.onLeave(what)}
      onKeyDown={event => {
        if (!event.ctrlKey && !event.metaKey && !event.altKey && handlers.onKey(what, event.key)) {
          event.preventDefault();
          event.stopPropagation();
        }
      }}
    >
      {props.children}
    </div>
  );
}

/** One task, in the color that it has everywhere. */
export function TaskChip(props: {
  task: string;
  handlers: ChipHandlers;
  colour: string;
  selected: boolean;
  /** The memory that the task needs, as a fraction of its available memory; null if unknown. */
  memory: number | null;
  state: TaskState | null;
  /** For an unplaced task of a running cluster, the device it was given; otherwise empty. */
  went: string;
  problem: Said | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { task, memory, state, went, problem, trans } = props;
  const words = [
    memory === null ? '' : trans.__('needs %1 of its memory', formatPercent(memory)),
    went === '' ? '' : trans.__('assigned to %1', went)
  ]
    .filter(part => part !== '')
    .join(', ');
  return (
    <Chip
      what={task}
      label={[trans.__('Task %1', task), words, problem?.message ?? ''].filter(part => part !== '').join(', ')}
      handlers={props.handlers}
      className={`jp-dtf-chip-task${problem ? (problem.isError ? ' jp-mod-problem' : ' jp-mod-warning') : ''}`}
      selected={props.selected}
      colour={props.colour}
      title={problem?.message ?? words}
    >
      {state && <StateMark state={state} trans={trans} />}
      {task}
      {went !== '' && <span className="jp-dtf-faint">→ {went}</span>}
      {memory !== null && (
        <span className="jp-dtf-chip-memory" aria-hidden="true">
          <span style={{ width: `${Math.min(100, 100 * memory)}%` }} />
        </span>
      )}
    </Chip>
  );
}
