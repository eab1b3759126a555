import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Calibration, Design, ModelDesign, ModelSource, Placement, RunInfo } from '../../../api/schema';
import { comparableRuns } from '../../../model/comparison';
import { formatClock } from '../../../model/format';
import { findIn, Found } from '../../../model/graphinputs';
import type { LayerTree } from '../../../model/layergraph';
import { SmallButton } from '../../controls';
import { stateText } from '../../localizedtext';
import type { ColourBy } from '../graph/graphappearance';
import { BarControl, OverflowBar } from '../overflowbar';
import type { Work } from './placementhooks';
import type { PlacementServices } from './placementservices';
import { readModel, sourceText } from './placementsource';

/**
 * The placement's toolbar: the model, how it is drawn, and the actions that place, profile and run it. If space is
 * short, the most used controls are moved out of it last.
 */
export function PlacementBar(props: {
  source: ModelSource;
  editable: boolean;
  colourBy: ColourBy;
  onColourBy: (colourBy: ColourBy) => void;
  onFold: () => void;
  onUnfold: () => void;
  tree: LayerTree;
  onFound: (found: Found) => void;
  onPick: () => void;
  services: PlacementServices;
  design: Design;
  run: string;
  onRun: (run: string) => void;
  work: Work;
  onModel: (model: ModelDesign) => void;
  onPlaced: (placement: Placement) => void;
  onProfiled: (calibration: Calibration) => void;
  onCode: () => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { source, editable, services, design, work, trans } = props;
  const [measuredOn, setMeasuredOn] = React.useState('');
  const busy = work.title !== '';
  const modelText = sourceText(source, trans);
  const runs = comparableRuns(services.runs(), design, services.clusterName());
  const controls: (BarControl | null)[] = [
    {
      id: 'model',
      stays: Infinity,
      element: (
        <>
          <SmallButton
            onClick={props.onPick}
            disabled={!editable}
            hint={trans.__('%1: choose another model', modelText)}
          >
            <span className="jp-dtf-model-name">{modelText}</span>
          </SmallButton>
          {source.kind !== 'none' && (
            <SmallButton
              label={trans.__('Read the model again from its source')}
              disabled={!editable}
              busy={busy}
              onClick={() =>
                work.start(trans.__('Reading the model'), async signal =>
                  props.onModel(await readModel(source, services, signal))
                )
              }
            >
              ⟳
            </SmallButton>
          )}
        </>
      )
    },
    {
      id: 'place',
      stays: 6,
      element: (
        <SmallButton
          disabled={!editable}
          busy={busy}
          hint={trans.__('Place all unpinned layers where they make a step fastest')}
          onClick={() =>
            work.start(trans.__('Placing'), async signal => props.onPlaced(await services.place(design, signal)))
          }
        >
          {trans.__('Place automatically')}
        </SmallButton>
      )
    },
    {
      id: 'profile',
      stays: 3,
      element: (
        <Profile
          {...props}
          busy={busy}
          clusters={services.clusters()}
          measuredOn={measuredOn}
          onMeasuredOn={setMeasuredOn}
        />
      )
    },
    {
      id: 'code',
      stays: 5,
      element: (
        <SmallButton hint={trans.__('Insert the code that trains this design')} onClick={props.onCode}>
          {trans.__('Run in notebook')}
        </SmallButton>
      )
    },
    runs.own.length + runs.others.length === 0
      ? null
      : { id: 'compare', stays: 2, element: <RunChoice {...props} runs={runs} /> },
    { id: 'colour', stays: 4, atEnd: true, element: <ColourChoice {...props} /> },
    {
      id: 'folds',
      stays: 1,
      atEnd: true,
      element: (
        <>
          <SmallButton onClick={props.onFold}>{trans.__('Collapse all')}</SmallButton>
          <SmallButton onClick={props.onUnfold}>{trans.__('Expand all')}</SmallButton>
        </>
      )
    },
    { id: 'find', stays: Infinity, atEnd: true, element: <Find {...props} /> }
  ];
  return (
    <OverflowBar label={trans.__('Placement')} controls={controls.filter(control => control !== null)} trans={trans} />
  );
}

function ColourChoice(props: {
  colourBy: ColourBy;
  onColourBy: (colourBy: ColourBy) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { colourBy, onColourBy, trans } = props;
  return (
    <label>
      {trans.__('color by')}
      <select value={colourBy} onChange={event => onColourBy(event.target.value as ColourBy)}>
        <option value="device">{trans.__('device')}</option>
        <option value="memory">{trans.__('memory')}</option>
        <option value="time">{trans.__('time')}</option>
      </select>
    </label>
  );
}

function Profile(props: {
  services: PlacementServices;
  design: Design;
  editable: boolean;
  busy: boolean;
  clusters: readonly string[];
  /** The cluster that was chosen here; empty: the design's own, if it is running. */
  measuredOn: string;
  onMeasuredOn: (cluster: string) => void;
  work: Work;
  onProfiled: (calibration: Calibration) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { services, design, editable, busy, clusters, work, trans } = props;
  const cluster = [props.measuredOn, services.clusterName()].find(name => clusters.includes(name)) ?? clusters[0];
  return (
    <>
      <SmallButton
        disabled={!editable || cluster === undefined}
        busy={busy}
        hint={
          cluster === undefined
            ? trans.__('Layers are measured on a running cluster: start one')
            : trans.__('Measure the layers on the tasks of %1', cluster)
        }
        onClick={() =>
          work.start(trans.__('Measuring the layers on %1', cluster!), async signal =>
            props.onProfiled(await services.profile(design, cluster!, signal))
          )
        }
      >
        {trans.__('Profile')}
      </SmallButton>
      {clusters.length > 1 && (
        <select
          aria-label={trans.__('The cluster to measure on')}
          value={cluster}
          onChange={event => props.onMeasuredOn(event.target.value)}
        >
          {clusters.map(name => (
            <option key={name}>{name}</option>
          ))}
        </select>
      )}
    </>
  );
}

/** Choose a run to overlay. */
function RunChoice(props: {
  runs: ReturnType<typeof comparableRuns>;
  run: string;
  onRun: (run: string) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { run, onRun, trans } = props;
  const { own, others } = props.runs;
  const groups: [string, readonly RunInfo[]][] = [
    [trans.__('Runs of this cluster or model'), own],
    [trans.__('Other runs'), others]
  ];
  return (
    <label>
      {trans.__('compare with')}
      <select value={run} onChange={event => onRun(event.target.value)}>
        <option value="">{trans.__('no run')}</option>
        {groups
          .filter(([, runs]) => runs.length > 0)
          .map(([label, runs]) => (
            <optgroup key={label} label={label}>
              {runs.map(info => (
                <option key={info.id} value={info.id} title={info.id}>
                  {runText(info, trans)}
                </option>
              ))}
            </optgroup>
          ))}
      </select>
    </label>
  );
}

/** Runs of one model share a name: their start times and results tell them apart. */
function runText({ name, created, state }: RunInfo, trans: TranslationBundle): string {
  const text = `${name}, ${formatClock(created)}`;
  return state === 'succeeded' ? text : `${text}, ${stateText(state, trans)}`;
}

/** Find layers and inputs by name or class; Enter goes to the next match, Shift+Enter to the previous one. */
function Find(props: {
  tree: LayerTree;
  onFound: (found: Found) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { tree, onFound, trans } = props;
  const [text, setText] = React.useState('');
  const [at, setAt] = React.useState(-1);
  const found = React.useMemo(() => findIn(tree, text), [tree, text]);
  const go = (by: number) => {
    if (found.length > 0) {
      const next = (at + by + found.length) % found.length;
      setAt(next);
      onFound(found[next]!);
    }
  };
  return (
    <span className="jp-dtf-find-box">
      <input
        className="jp-dtf-search jp-dtf-find"
        type="search"
        placeholder={trans.__('Find…')}
        aria-label={trans.__('Find layers and inputs by name or class; Enter goes to the next')}
        value={text}
        onChange={event => {
          setText(event.target.value);
          setAt(-1);
        }}
        onKeyDown={event => {
          if (event.key === 'Enter') {
            event.preventDefault();
            go(event.shiftKey && at >= 0 ? -1 : 1);
          }
        }}
      />
      {text.trim() !== '' && (
        <span className="jp-dtf-faint jp-dtf-found" role="status">
          {at >= 0 ? trans.__('%1 of %2', at + 1, found.length) : trans.__('%1 found', found.length)}
        </span>
      )}
    </span>
  );
}
