import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { RunInfo, Source } from '../../api/schema';
import type { RunModel } from '../../model/run';
import type { Compared } from '../../model/runtable';
import { CopyButton } from '../copybutton';
import { madeOf, madeOfText } from '../runcode';
import { CodeDiff } from './codediff';
import { ComparedHeads, Differences } from './differencestable';
import { useSubmitted } from './usesubmitted';

/** The origin of runs: versions and commits of all of them, and the code of two of them side by side. */
export function ComparedCode(
  props: ComparedHeads & {
    models: readonly RunModel[];
    runs: readonly RunInfo[];
    now: number;
    trans: TranslationBundle;
    onCopy: (text: string) => void;
  }
): React.ReactElement {
  const { ids, titles, models, runs, trans } = props;
  const submitted = useSubmitted(models);
  const [chosen, setChosen] = React.useState<readonly [string, string]>(['', '']);
  // Runs that are no longer ticked are no longer compared.
  const left = ids.includes(chosen[0]) ? chosen[0] : ids.find(id => id !== chosen[1])!;
  const right = ids.includes(chosen[1]) && chosen[1] !== left ? chosen[1] : ids.find(id => id !== left)!;
  const [a, b] = [ids.indexOf(left), ids.indexOf(right)];
  const lines = React.useMemo(() => compareOrigins(runs), [runs]);
  const side = (is: 0 | 1, value: string, other: string) => (
    <select
      aria-label={is === 0 ? trans.__('Run on the left') : trans.__('Run on the right')}
      value={value}
      onChange={event => setChosen(is === 0 ? [event.target.value, other] : [other, event.target.value])}
    >
      {ids.map((id, index) => (
        <option key={id} value={id} disabled={id === other}>
          {titles[index]}
        </option>
      ))}
    </select>
  );
  return (
    <>
      <Differences
        {...props}
        lines={lines}
        label={trans.__('Versions and commits')}
        none={trans.__('The same packages in the same versions, at the same commit.')}
        beside={index => (
          <CopyButton
            label={trans.__('Copy the versions and the commit of %1', titles[index]!)}
            text={madeOfText(runs[index]!.origin)}
            trans={trans}
            onCopy={props.onCopy}
          />
        )}
      />
      <div className="jp-dtf-diff">
        <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Code')}>
          {side(0, left, right)}
          <span>{trans.__('side by side')}</span>
          {side(1, right, left)}
        </div>
        {submitted[a] === undefined || submitted[b] === undefined ? (
          <p className="jp-dtf-faint" role="status">
            {trans.__('Looking for the code…')}
          </p>
        ) : (
          <Pieces
            left={submitted[a]?.code ?? []}
            right={submitted[b]?.code ?? []}
            titles={[titles[a]!, titles[b]!]}
            trans={trans}
          />
        )}
      </div>
    </>
  );
}

/** The pieces of two runs, paired by name. */
function Pieces(props: {
  left: readonly Source[];
  right: readonly Source[];
  titles: readonly [string, string];
  trans: TranslationBundle;
}): React.ReactElement {
  const { left, right, titles, trans } = props;
  if (left.length === 0 && right.length === 0) {
    return <p className="jp-dtf-faint">{trans.__('The code of neither run was recorded.')}</p>;
  }
  return (
    <>
      {pairs(left, right).map(([name, a, b]) => (
        <CodeDiff key={name} name={name} left={a} right={b} titles={titles} trans={trans} />
      ))}
    </>
  );
}

function compareOrigins(runs: readonly RunInfo[]): Compared[] {
  const facts = runs.map(run => new Map(madeOf(run.origin)));
  return [...new Set(facts.flatMap(known => [...known.keys()]))].map(column => {
    const values = facts.map(known => known.get(column));
    return { column, values, differs: values.some(value => value !== values[0]) };
  });
}

/** Pair pieces by name; if each run has just one, pair these, since a script may have moved. */
function pairs(left: readonly Source[], right: readonly Source[]): [string, string | null, string | null][] {
  if (left.length === 1 && right.length === 1) {
    const [a, b] = [left[0]!, right[0]!];
    return [[a.name === b.name ? a.name : `${a.name} · ${b.name}`, a.text, b.text]];
  }
  const names = new Set([...left, ...right].map(({ name }) => name));
  const textOf = (sources: readonly Source[], name: string) => sources.find(one => one.name === name)?.text ?? null;
  return [...names].map(name => [name, textOf(left, name), textOf(right, name)]);
}
