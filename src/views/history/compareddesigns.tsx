import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Design, Submitted } from '../../api/schema';
import { compareDesigns } from '../../model/designfacts';
import { DesignError, readDesign } from '../../model/designtext';
import type { RunModel } from '../../model/run';
import { CopyButton } from '../copybutton';
import { ComparedHeads, Differences } from './differencestable';
import { useSubmitted } from './usesubmitted';

/** The designs of several runs side by side: clusters, settings, and the placement of each layer. */
export function ComparedDesigns(
  props: ComparedHeads & {
    models: readonly RunModel[];
    now: number;
    trans: TranslationBundle;
    onCopy: (text: string) => void;
  }
): React.ReactElement {
  const { models, titles, trans } = props;
  const submitted = useSubmitted(models);
  if (submitted.includes(undefined)) {
    return (
      <p className="jp-dtf-faint jp-dtf-none" role="status">
        {trans.__('Looking for the designs…')}
      </p>
    );
  }
  const all = submitted.map(designOf);
  const none = titles.filter((_, index) => all[index]![0] === null && all[index]![1] === '');
  if (none.length === titles.length) {
    return (
      <p className="jp-dtf-faint jp-dtf-none">
        {trans.__(
          'None of these runs came from a design: no pipeline names a .dtf file, and no cluster was started from one with hosts or tasks.'
        )}
      </p>
    );
  }
  return (
    <>
      {all.map(
        ([, problem], index) =>
          problem !== '' && (
            <p key={index} className="jp-dtf-problem jp-dtf-none">
              {trans.__('The design of %1 cannot be read: %2', titles[index]!, problem)}
            </p>
          )
      )}
      {none.length > 0 && (
        <p className="jp-dtf-faint jp-dtf-none">{trans.__('Runs without a design: %1', none.join(', '))}</p>
      )}
      <Differences
        {...props}
        lines={compareDesigns(all.map(([design]) => design))}
        label={trans.__('Designs')}
        none={trans.__('These designs do not differ.')}
        beside={index => {
          const design = submitted[index]?.design;
          return (
            design && (
              <>
                <span className="jp-dtf-faint">{design.name}</span>
                <CopyButton
                  label={trans.__('Copy the design of %1', titles[index]!)}
                  text={design.text}
                  trans={trans}
                  onCopy={props.onCopy}
                />
              </>
            )
          );
        }}
      />
    </>
  );
}

const known = new WeakMap<Submitted, readonly [Design | null, string]>();

/** The design that a run came from; null if there is none, or if it cannot be read, with the reason. */
function designOf(submitted: Submitted | null | undefined): readonly [Design | null, string] {
  if (!submitted?.design) {
    return [null, ''];
  }
  let read = known.get(submitted);
  if (!read) {
    read = readOne(submitted.design.text);
    known.set(submitted, read);
  }
  return read;
}

function readOne(text: string): [Design | null, string] {
  try {
    return [readDesign(text), ''];
  } catch (error) {
    if (error instanceof DesignError) {
      return [null, error.message];
    }
    throw error;
  }
}
