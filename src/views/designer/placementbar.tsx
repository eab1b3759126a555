import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Calibration, Design, ModelDesign, ModelSource, Placement, RunInfo } from '../../api/schema';
import { comparableRuns } from '../../model/comparison';
import { formatClock } from '../../model/format';
import { findLayers, LayerTree, TreeNode } from '../../model/layergraph';
import { SmallButton } from '../basics';
import { stateText } from '../words';
import type { ColourBy } from './graphpicture';
import type { Work } from './placementhooks';
import type { PlacementServices } from './placementservices';
import { readModel, sourceText } from './placementsource';

/** The placement's own toolbar: the model, how it is drawn, and what places, measures and runs it. */
export function PlacementBar(props: {
  source: ModelSource;
  editable: boolean;
  colourBy: ColourBy;
  onColourBy: (colourBy: ColourBy) => void;
  onFold: () => void;
  onUnfold: () => void;
  tree: LayerTree;
  onFound: (node: TreeNode) => void;
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
  const busy = work.title !== '';
  const clusters = services.clusters();
  return (
    <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Placement')}>
      <SmallButton onClick={props.onPick} disabled={!editable} hint={trans.__('Choose another model')}>
        {sourceText(source, trans)}
      </SmallButton>
      {source.kind !== 'none' && (
        <SmallButton
          label={trans.__('Read the model again from where it came from')}
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
      <SmallButton
        disabled={!editable}
        busy={busy}
        hint={trans.__('Put the layers that are not pinned where a step takes least')}
        onClick={() =>
          work.start(trans.__('Placing'), async signal => props.onPlaced(await services.place(design, signal)))
        }
      >
        {trans.__('Place automatically')}
      </SmallButton>
      <Profile {...props} busy={busy} clusters={clusters} />
      <SmallButton hint={trans.__('Insert the code that trains this design')} onClick={props.onCode}>
        {trans.__('Run in notebook')}
      </SmallButton>
      <RunChoice {...props} />
      <span className="jp-dtf-spacer" />
      <label>
        {trans.__('colour by')}
        <select value={props.colourBy} onChange={event => props.onColourBy(event.target.value as ColourBy)}>
          <option value="device">{trans.__('device')}</option>
          <option value="memory">{trans.__('memory')}</option>
          <option value="time">{trans.__('time')}</option>
        </select>
      </label>
      <SmallButton onClick={props.onFold}>{trans.__('Fold all')}</SmallButton>
      <SmallButton onClick={props.onUnfold}>{trans.__('Unfold all')}</SmallButton>
      <Find tree={props.tree} onFound={props.onFound} trans={trans} />
    </div>
  );
}

function Profile(props: {
  services: PlacementServices;
  design: Design;
  editable: boolean;
  busy: boolean;
  clusters: readonly string[];
  work: Work;
  onProfiled: (calibration: Calibration) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { services, design, editable, busy, clusters, work, trans } = props;
  const [named, setNamed] = React.useState('');
  const cluster = [named, services.clusterName()].find(name => clusters.includes(name)) ?? clusters[0];
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
          onChange={event => setNamed(event.target.value)}
        >
          {clusters.map(name => (
            <option key={name}>{name}</option>
          ))}
        </select>
      )}
    </>
  );
}

/** Lay over what a run did. */
function RunChoice(props: {
  services: PlacementServices;
  design: Design;
  run: string;
  onRun: (run: string) => void;
  trans: TranslationBundle;
}): React.ReactElement | null {
  const { services, design, run, onRun, trans } = props;
  const { own, others } = comparableRuns(services.runs(), design, services.clusterName());
  const groups: [string, readonly RunInfo[]][] = [
    [trans.__('Of this cluster or model'), own],
    [trans.__('Others'), others]
  ];
  return own.length + others.length === 0 ? null : (
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

/** Runs of one model have one name: it is when they began, and how they went, that tells them apart. */
function runText({ name, created, state }: RunInfo, trans: TranslationBundle): string {
  const text = `${name}, ${formatClock(created)}`;
  return state === 'succeeded' ? text : `${text}, ${stateText(state, trans)}`;
}

/** Find layers by name or class; Enter goes from one to the next, with Shift back. */
function Find(props: {
  tree: LayerTree;
  onFound: (node: TreeNode) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { tree, onFound, trans } = props;
  const [text, setText] = React.useState('');
  const [at, setAt] = React.useState(-1);
  const found = React.useMemo(() => findLayers(tree, text), [tree, text]);
  const go = (by: number) => {
    if (found.length > 0) {
      const next = (at + by + found.length) % found.length;
      setAt(next);
      onFound(found[next]!);
    }
  };
  return (
    <>
      <input
        className="jp-dtf-search jp-dtf-find"
        type="search"
        placeholder={trans.__('Find a layer')}
        aria-label={trans.__('Find layers by name or class; Enter goes to the next')}
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
        <span className="jp-dtf-faint" role="status">
          {at >= 0 ? trans.__('%1 of %2', at + 1, found.length) : trans.__('%1 found', found.length)}
        </span>
      )}
    </>
  );
}
