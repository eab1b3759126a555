import React from 'react';

import type { FieldInfo, Problem } from '../api/schema';
import { Problems } from './jobrows';

const GIB = 2 ** 30;

/** The typed text as the option's value; undefined if it is empty, for the default. */
export function optionValue(field: FieldInfo, text: string): unknown {
  if (text.trim() === '') {
    return undefined;
  }
  switch (field.type) {
    case 'integer':
    case 'number':
      return Number(text);
    case 'bytes':
      return Math.round(Number(text) * GIB);
    case 'boolean':
      return text === 'true';
    default:
      return text;
  }
}

/** An option's value as shown in the form. */
export function optionText(field: FieldInfo, value: unknown): string {
  if (value === null || value === undefined) {
    return '';
  }
  if (field.type === 'bytes') {
    return typeof value === 'number' && value > 0 ? String(Number((value / GIB).toFixed(2))) : '';
  }
  if (field.type === 'list' && Array.isArray(value)) {
    return value.join(', ');
  }
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** A form field for an option of a kind of cluster, depending on its type. */
export function OptionField(props: {
  field: FieldInfo;
  text: string;
  problems: readonly Problem[];
  onChange: (text: string) => void;
}): React.ReactElement {
  const { field, text, problems, onChange } = props;
  const id = React.useId();
  const path = `options.${field.name}`;
  const common = {
    id,
    className: 'jp-mod-styled',
    'aria-invalid': problems.some(problem => problem.field === path && problem.level === 'error'),
    'aria-describedby': `${id}-help ${id}-problems`
  };
  let input: React.ReactElement;
  if (field.type === 'boolean') {
    input = (
      <input
        {...common}
        type="checkbox"
        checked={text === 'true'}
        onChange={event => onChange(String(event.target.checked))}
      />
    );
  } else if (field.type === 'choice') {
    input = (
      <select {...common} value={text} onChange={event => onChange(event.target.value)}>
        {field.choices.map(choice => (
          <option key={choice} value={choice}>
            {choice}
          </option>
        ))}
      </select>
    );
  } else {
    const numeric = field.type !== 'string' && field.type !== 'list';
    const scale = field.type === 'bytes' ? GIB : 1;
    input = (
      <input
        {...common}
        type={numeric ? 'number' : 'text'}
        step={field.type === 'integer' ? 1 : 'any'}
        min={field.minimum === null ? undefined : field.minimum / scale}
        max={field.maximum === null ? undefined : field.maximum / scale}
        value={text}
        onChange={event => onChange(event.target.value)}
      />
    );
  }
  return (
    <div className="jp-dtf-field" data-type={field.type}>
      <label htmlFor={id}>{field.title}</label>
      <span className="jp-dtf-field-input">
        {input}
        {field.type === 'bytes' && <span className="jp-dtf-faint">GiB</span>}
      </span>
      <span id={`${id}-help`} className="jp-dtf-faint jp-dtf-field-help">
        {field.help}
      </span>
      <Problems problems={problems} field={path} id={`${id}-problems`} />
    </div>
  );
}
