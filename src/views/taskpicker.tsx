import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { MANY } from '../model/spread';

/** A choice of one task: a list, or, if there are many, a text field with suggestions below it. */
export function TaskPicker(props: {
  tasks: readonly string[];
  /** Empty for all of them. */
  task: string;
  /** The label for all tasks together, if they can be chosen. */
  all?: string;
  onTask: (task: string) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { tasks, task, all, onTask, trans } = props;
  const id = React.useId();
  const [typed, setTyped] = React.useState<string | null>(null);
  const label = trans._p('whose', 'task');
  if (tasks.length <= MANY) {
    return (
      <label>
        {label}
        <select value={task} onChange={event => onTask(event.target.value)}>
          {all !== undefined && <option value="">{all}</option>}
          {tasks.map(name => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
    );
  }
  const take = (text: string) => {
    setTyped(text);
    const name = text.trim();
    if (tasks.includes(name) || (name === '' && all !== undefined)) {
      onTask(name);
    }
  };
  const unknown = typed !== null && typed.trim() !== '' && !tasks.includes(typed.trim());
  return (
    <label className="jp-dtf-task-picker">
      {label}
      <input
        type="search"
        list={id}
        value={typed ?? task}
        placeholder={all ?? tasks[0]}
        aria-invalid={unknown || undefined}
        title={trans.__('One of %1 tasks, such as %2', tasks.length, tasks[0]!)}
        onChange={event => take(event.target.value)}
        onBlur={() => setTyped(null)}
      />
      <datalist id={id}>
        {tasks.map(name => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </label>
  );
}
