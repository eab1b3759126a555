import React from 'react';

import type { ClusterState, RunState, TaskState } from '../api/schema';

export type MarkKind = ClusterState | RunState | TaskState | 'info' | 'warning' | 'error';

const DOT = <circle cx="8" cy="8" r="4.2" fill="currentColor" />;
const RING = <circle cx="8" cy="8" r="3.6" fill="none" stroke="currentColor" strokeWidth="1.4" />;
const round = (inner: React.ReactNode) => (
  <>
    <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" strokeWidth="1.4" />
    {inner}
  </>
);
const ALERT = round(
  <path d="M8 4.6v4.2M8 10.9v.2" fill="none" stroke="currentColor" strokeWidth="1.7" strokeLinecap="round" />
);

// A shape for each state, so that states are not distinguished by color alone. None looks like a button.
const SHAPES: Record<MarkKind, React.ReactNode> = {
  starting: DOT,
  launching: DOT,
  running: DOT,
  serving: DOT,
  finished: DOT,
  restarting: DOT,
  pausing: DOT,
  stopping: DOT,
  pending: RING,
  paused: round(<path d="M8 3.8a4.2 4.2 0 0 0 0 8.4z" fill="currentColor" />),
  succeeded: (
    <path
      d="M3.2 8.6l3.2 3.2 6.4-7.2"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.8"
      strokeLinecap="round"
      strokeLinejoin="round"
    />
  ),
  stopped: <rect x="4.4" y="4.4" width="7.2" height="7.2" rx="1" fill="currentColor" />,
  failed: ALERT,
  error: ALERT,
  lost: round(
    <path
      d="M6.3 6.4a1.8 1.8 0 1 1 2.6 1.6c-.6.3-.9.6-.9 1.2M8 11.2v.1"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
    />
  ),
  info: round(
    <path d="M8 7.4v3.8M8 4.9v.1" fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" />
  ),
  warning: (
    <path
      d="M8 2.4l6 11H2zM8 6.4v3.4M8 11.6v.1"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
    />
  )
};

/** A state or a level as an icon, with its name for screen readers; without a name it is decorative. */
export function Mark(props: { kind: MarkKind; name?: string }): React.ReactElement {
  const { kind, name } = props;
  const named = name === undefined ? { 'aria-hidden': true } : { role: 'img', 'aria-label': name, title: name };
  return (
    <span className="jp-dtf-state" data-state={kind} {...named}>
      <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
        {SHAPES[kind]}
      </svg>
    </span>
  );
}
