import type { TranslationBundle } from '@jupyterlab/translation';
import { caretDownIcon, caretRightIcon, LabIcon } from '@jupyterlab/ui-components';
import React from 'react';

import type { ClusterState, RunState, TaskState } from '../api/schema';
import { Mark } from './stateicons';
import { stateText } from './localizedtext';

/** A state as an icon, with its name for screen readers. */
export function StateMark(props: {
  state: ClusterState | RunState | TaskState;
  trans: TranslationBundle;
}): React.ReactElement {
  return <Mark kind={props.state} name={stateText(props.state, props.trans)} />;
}

/** An icon button; `label` is its accessible name and tooltip. */
export function IconButton(props: {
  icon: LabIcon;
  label: string;
  onClick: (event: React.MouseEvent<HTMLButtonElement>) => void;
  disabled?: boolean;
  menu?: boolean;
}): React.ReactElement {
  return (
    <button
      type="button"
      className="jp-dtf-icon-button"
      title={props.label}
      aria-label={props.label}
      aria-haspopup={props.menu ? 'menu' : undefined}
      disabled={props.disabled ?? false}
      onClick={props.onClick}
    >
      <props.icon.react tag="span" className="jp-dtf-icon" />
    </button>
  );
}

/**
 * A small button with text. Its text is also its accessible name, so that users of voice control can say what they
 * see: `hint` is only a description; `label` replaces the name if the text is a symbol, or extends the text.
 */
export function SmallButton(props: {
  children: React.ReactNode;
  onClick: (event: React.MouseEvent<HTMLButtonElement>) => void;
  label?: string;
  hint?: string;
  disabled?: boolean;
  menu?: boolean;
  /** Inactive for a while, but keeps the keyboard focus, which a disabled button would lose. */
  busy?: boolean;
  accent?: boolean;
}): React.ReactElement {
  return (
    <button
      type="button"
      className={`jp-dtf-button${props.accent ? ' jp-mod-accept' : ''}`}
      aria-label={props.label}
      title={props.hint ?? props.label}
      aria-haspopup={props.menu ? 'menu' : undefined}
      disabled={props.disabled ?? false}
      aria-disabled={props.busy || undefined}
      onClick={event => !props.busy && props.onClick(event)}
    >
      {props.children}
    </button>
  );
}

/** A fraction as a bar, with its value as text next to it or in its accessible name. */
export function Bar(props: { fraction: number | null; label: string; kind?: string }): React.ReactElement {
  const known = props.fraction !== null && Number.isFinite(props.fraction);
  const percent = known ? Math.round(100 * Math.min(1, Math.max(0, props.fraction!))) : 0;
  return (
    <span
      className={`jp-dtf-bar${known ? '' : ' jp-mod-unknown'}`}
      data-kind={props.kind}
      role="progressbar"
      aria-label={props.label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={known ? percent : undefined}
      title={props.label}
    >
      <span style={{ width: `${percent}%` }} />
    </span>
  );
}

/**
 * A collapsible section of the side panel; `tools` are at the right of its heading and open it, since their effect is
 * visible in it.
 */
export function Section(props: {
  title: string;
  tools?: React.ReactNode;
  children: React.ReactNode;
}): React.ReactElement {
  const [open, setOpen] = React.useState(true);
  const id = React.useId();
  const Caret = open ? caretDownIcon : caretRightIcon;
  return (
    <section className="jp-dtf-section" aria-labelledby={`${id}-title`}>
      <header className="jp-dtf-section-header">
        <button
          type="button"
          id={`${id}-title`}
          className="jp-dtf-section-title"
          aria-expanded={open}
          aria-controls={id}
          onClick={() => setOpen(!open)}
        >
          <Caret.react tag="span" className="jp-dtf-icon" />
          {props.title}
        </button>
        <span className="jp-dtf-section-tools" onClickCapture={() => setOpen(true)}>
          {props.tools}
        </span>
      </header>
      <div id={id} hidden={!open} className="jp-dtf-section-body">
        {props.children}
      </div>
    </section>
  );
}

/** A sentence with code between backticks. */
export function WithCode({ text }: { text: string }): React.ReactElement {
  return <>{text.split('`').map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}
