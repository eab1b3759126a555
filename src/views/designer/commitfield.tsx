import React from 'react';

/**
 * A text field that commits its value when it loses focus or Enter is pressed; Escape reverts it. `read` converts the
 * typed text to a value, or returns an error message.
 */
export function CommitField<T>(props: {
  label: string;
  text: string;
  read: (typed: string) => { value: T } | { problem: string };
  onCommit: (value: T) => void;
  problem?: string;
  disabled?: boolean;
  /** The step of the arrow keys for a number field; a text field if omitted. */
  step?: number;
  unit?: string;
  placeholder?: string;
  hideLabel?: boolean;
}): React.ReactElement {
  const { label, text, read, onCommit, disabled, step } = props;
  const id = React.useId();
  const [typed, setTyped] = React.useState(text);
  const [shown, setShown] = React.useState(text);
  if (shown !== text) {
    setShown(text); // it was changed elsewhere, or undone
    setTyped(text);
  }
  const result = typed === text ? null : read(typed);
  const problem = result && 'problem' in result ? result.problem : (props.problem ?? '');
  const commit = (what: string) => {
    const taken = what === text ? null : read(what);
    if (taken && 'value' in taken) {
      onCommit(taken.value);
    } else if (taken === null) {
      setTyped(text);
    }
  };
  const onKeyDown = (event: React.KeyboardEvent<HTMLInputElement>) => {
    if (event.key === 'Enter') {
      event.preventDefault();
      commit(typed);
    } else if (event.key === 'Escape' && typed !== text) {
      event.stopPropagation();
      setTyped(text);
    } else if (step !== undefined && (event.key === 'ArrowUp' || event.key === 'ArrowDown')) {
      event.preventDefault();
      commit(String(Math.max(0, Number(typed) + (event.key === 'ArrowUp' ? step : -step))));
    }
  };
  return (
    <div className="jp-dtf-commit">
      {!props.hideLabel && <label htmlFor={id}>{label}</label>}
      <span className="jp-dtf-field-input">
        <input
          id={id}
          type="text"
          inputMode={step === undefined ? undefined : 'decimal'}
          className="jp-mod-styled"
          value={typed}
          placeholder={props.placeholder}
          disabled={disabled}
          aria-label={props.hideLabel ? label : undefined}
          aria-invalid={problem !== ''}
          aria-describedby={`${id}-problem`}
          onChange={event => setTyped(event.target.value)}
          onKeyDown={onKeyDown}
          onBlur={() => commit(typed)}
        />
        {props.unit !== undefined && <span className="jp-dtf-faint">{props.unit}</span>}
      </span>
      <div id={`${id}-problem`} className="jp-dtf-problem" role="alert">
        {problem}
      </div>
    </div>
  );
}
