import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { countsOf, parametersCode, Search, Trial } from '../../model/search';
import { axesOf, Brush, Brushes, isChosen } from '../../model/searchaxes';
import { canStop } from '../../model/runstate';
import { SmallButton } from '../controls';
import { Mark } from '../stateicons';
import { Tabs } from '../tabs';
import { Devices } from './trialdevices';
import { History } from './trialhistory';
import { Parallel } from './parallelcoordinates';
import { Scatter } from './scatter';
import { markOf, SearchViewProps, shown, trialStateText } from './searchviewshared';
import { TrialTable } from './trialtable';

/** The actions of a search's view. */
export interface SearchActions {
  onOpen: (run: string) => void;
  onStop: (run: string) => void;
  onStopSearch: (search: string) => void;
  onMore: (search: string) => void;
  onCopy: (text: string) => void;
}

/** A search: all its trials, in a table and in plots that share the brushes and the selected trial. */
export function SearchView(props: { search: Search; trans: TranslationBundle } & SearchActions): React.ReactElement {
  const { search, trans, onOpen, onStop } = props;
  const [tab, setTab] = React.useState('table');
  const [brushes, setBrushes] = React.useState<Brushes>(new Map());
  const [lookedAt, setLookedAt] = React.useState<string | null>(null);
  const axes = React.useMemo(() => axesOf(search), [search]);
  // With thousands of trials, drawing may lag behind the brush that is being dragged.
  const settled = React.useDeferredValue(brushes);
  const chosen = React.useMemo(
    () => (settled.size > 0 ? search.trials.filter(trial => isChosen(trial, axes, settled)) : search.trials),
    [search, axes, settled]
  );
  const looked = search.trials.find(trial => trial.run.id === lookedAt) ?? null;
  const onBrush = React.useCallback((axis: string, brush: Brush | null) => {
    setBrushes(before => {
      const after = new Map(before);
      if (brush) {
        after.set(axis, brush);
      } else {
        after.delete(axis);
      }
      return after;
    });
  }, []);
  const looking: SearchViewProps = { search, trans, chosen, looked, onLook: trial => setLookedAt(trial.run.id) };
  const tabs = [
    {
      id: 'table',
      title: trans.__('Table'),
      content: <TrialTable {...looking} onOpen={onOpen} onStop={onStop} />
    },
    {
      id: 'parallel',
      title: trans.__('Parallel'),
      content: <Parallel {...looking} axes={axes} brushes={brushes} onBrush={onBrush} />
    },
    { id: 'importance', title: trans.__('Importance'), content: <Scatter {...looking} axes={axes} /> },
    { id: 'history', title: trans.__('History'), content: <History {...looking} /> },
    { id: 'devices', title: trans.__('Devices'), content: <Devices {...looking} /> }
  ];
  return (
    <>
      <Head {...props} />
      <div className="jp-dtf-chosen" role="status">
        {brushes.size > 0 && (
          <>
            <span>{trans.__('%1 of %2 trials are chosen', chosen.length, search.trials.length)}</span>
            <SmallButton onClick={() => setBrushes(new Map())}>{trans.__('Choose all')}</SmallButton>
          </>
        )}
      </div>
      <Tabs label={trans.__('Views of %1', search.name)} active={tab} onActive={setTab} tabs={tabs} />
      <Foot trial={looked ?? search.best[0] ?? null} {...props} />
    </>
  );
}

function Head(props: { search: Search; trans: TranslationBundle } & SearchActions): React.ReactElement {
  const { search, trans } = props;
  const counts = countsOf(search.trials);
  const ended = search.trials.length - (counts.get('waiting') ?? 0) - (counts.get('running') ?? 0);
  const parts = (['running', 'waiting', 'pruned', 'stopped', 'failed'] as const)
    .filter(state => counts.has(state))
    .map(state => `${counts.get(state)} ${trialStateText(state, trans)}`);
  const [best] = search.best;
  const detail = [search.cluster, ...search.objectives.map(({ metric, direction }) => `${direction} ${metric}`)].join(
    ' · '
  );
  const state = search.isRunning ? trans.__('running') : trans.__('ended');
  return (
    <header className="jp-dtf-header">
      <div className="jp-dtf-header-line">
        <div className="jp-dtf-header-facts">
          <h2 className="jp-dtf-title" title={search.name}>
            {search.name}
          </h2>
          <span className="jp-dtf-header-state" role="status">
            <Mark kind={search.isRunning ? 'running' : 'succeeded'} name={state} />
            <span aria-hidden="true">{state}</span>
          </span>
          <span className="jp-dtf-number">
            {search.most > 0
              ? trans.__('%1/%2 trials', ended, Math.max(search.most, ended))
              : trans._n('%1 trial', '%1 trials', ended)}
          </span>
          <span className="jp-dtf-faint">{parts.join(' · ')}</span>
          {search.objectives.length === 1 && best && (
            <span>
              {trans.__('best %1 %2 (trial %3)', search.objectives[0]!.metric, shown(best.value), best.number)}
            </span>
          )}
          {search.objectives.length > 1 && (
            <span>{trans._n('%1 trial on the Pareto front', '%1 trials on the Pareto front', search.best.length)}</span>
          )}
        </div>
        <div className="jp-dtf-header-actions">
          <SmallButton
            disabled={!best}
            hint={trans.__('Copy the best parameters to the clipboard, as Python code')}
            onClick={() => props.onCopy(parametersCode(best!))}
          >
            {trans.__('Copy best as code')}
          </SmallButton>
          {search.isRunning && search.mayGrow && (
            <SmallButton onClick={() => props.onMore(search.id)}>{trans.__('Add trials…')}</SmallButton>
          )}
          {search.isRunning && (
            <SmallButton disabled={search.isAskedToStop} onClick={() => props.onStopSearch(search.id)}>
              {search.isAskedToStop ? trans.__('Stopping…') : trans.__('Stop search')}
            </SmallButton>
          )}
        </div>
      </div>
      <div className="jp-dtf-header-detail jp-dtf-faint" title={detail}>
        {detail}
      </div>
    </header>
  );
}

/** The selected trial, or the best one, and its actions. Its space is always reserved. */
function Foot(
  props: { trial: Trial | null; search: Search; trans: TranslationBundle } & SearchActions
): React.ReactElement {
  const { trial, search, trans } = props;
  if (!trial) {
    return (
      <footer className="jp-dtf-search-foot jp-dtf-faint">
        {trans.__('No trial is complete yet. Click a trial to see it here.')}
      </footer>
    );
  }
  const parameters = search.parameters.map(name => `${name} ${shown(trial.run.parameters[name])}`).join(' · ');
  const values = search.objectives.map(
    ({ metric }, index) => `${metric} ${shown(trial.values[index] ?? undefined) || '–'}`
  );
  return (
    <footer className="jp-dtf-search-foot" aria-label={trans.__('Trial %1', trial.number)}>
      <span className="jp-dtf-search-facts">
        <strong>
          {search.best.includes(trial) ? '★ ' : ''}
          {trans.__('trial %1', trial.number)}
        </strong>{' '}
        <Mark kind={markOf(trial.state)} />
        {[trialStateText(trial.state, trans), ...values, parameters, ...trial.places].join(' · ')}
        {trial.error !== '' && <span className="jp-dtf-problem"> {trial.error}</span>}
      </span>
      <SmallButton
        label={trans.__('Copy the parameters of trial %1', trial.number)}
        onClick={() => props.onCopy(parametersCode(trial))}
      >
        {trans.__('Copy parameters')}
      </SmallButton>
      <SmallButton
        label={trans.__('Stop trial %1 now', trial.number)}
        disabled={!canStop(trial.run.state)}
        onClick={() => props.onStop(trial.run.id)}
      >
        {trans.__('Stop')}
      </SmallButton>
      <SmallButton label={trans.__('Dashboard of trial %1', trial.number)} onClick={() => props.onOpen(trial.run.id)}>
        {trans.__('Dashboard')}
      </SmallButton>
    </footer>
  );
}
