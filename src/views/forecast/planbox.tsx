import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import {
  DEFAULTS,
  type Design,
  type ForecastSettings,
  type PlanOption,
  type ScalePlan,
  type ScaleTarget
} from '../../api/schema';
import { messageOf } from '../../model/errormessage';
import { formatNumber, formatPercent } from '../../model/format';
import { SmallButton } from '../controls';

type Goal = 'examples_per_second' | 'hours' | 'device_hours';

/** A target, and the smallest number of machines that reaches it, which can be opened as a new design. */
export function PlanBox(props: {
  /** The other settings: the strategies that may be used. */
  settings: readonly ForecastSettings[];
  plan: (target: ScaleTarget, settings: ForecastSettings[]) => Promise<ScalePlan>;
  openDesign: (design: Design) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { settings, trans } = props;
  const title = React.useId();
  const [goal, setGoal] = React.useState<Goal>('examples_per_second');
  const [amount, setAmount] = React.useState('');
  const [examples, setExamples] = React.useState('');
  const [found, setFound] = React.useState<ScalePlan | null>(null);
  const [problem, setProblem] = React.useState('');
  const [busy, setBusy] = React.useState(false);
  const isPositive = (text: string) => Number.isFinite(Number(text)) && Number(text) > 0;
  const find = (event: React.FormEvent) => {
    event.preventDefault();
    const wrong = !isPositive(amount)
      ? amount
      : goal !== 'examples_per_second' && !isPositive(examples)
        ? examples
        : null;
    if (wrong !== null) {
      setFound(null);
      setProblem(trans.__('A target must be a number above 0, got %1', JSON.stringify(wrong)));
      return;
    }
    setBusy(true);
    setProblem('');
    const target = { ...DEFAULTS.ScaleTarget, [goal]: Number(amount) };
    props
      .plan(goal === 'examples_per_second' ? target : { ...target, examples: Number(examples) }, [...settings])
      .then(setFound, (error: unknown) => {
        setFound(null);
        setProblem(messageOf(error));
      })
      .finally(() => setBusy(false));
  };
  return (
    <section className="jp-dtf-plan" aria-labelledby={title}>
      <h3 id={title}>{trans.__('What would it take?')}</h3>
      <form onSubmit={find} noValidate>
        <label>
          {trans.__('Target')}
          <select value={goal} onChange={event => setGoal(event.target.value as Goal)}>
            <option value="examples_per_second">{trans.__('examples per second')}</option>
            <option value="hours">{trans.__('hours at most')}</option>
            <option value="device_hours">{trans.__('device-hours at most')}</option>
          </select>
        </label>
        <label>
          {trans.__('How many')}
          <input inputMode="decimal" value={amount} onChange={event => setAmount(event.target.value)} />
        </label>
        {goal !== 'examples_per_second' && (
          <label>
            {trans.__('Examples in all epochs')}
            <input inputMode="numeric" value={examples} onChange={event => setExamples(event.target.value)} />
          </label>
        )}
        <button type="submit" className="jp-dtf-button jp-mod-accept" disabled={busy}>
          {trans.__('Find the fewest machines')}
        </button>
      </form>
      <div role="status">{busy && <p className="jp-dtf-faint">{trans.__('Computing…')}</p>}</div>
      {problem !== '' && (
        <p className="jp-dtf-problem" role="alert">
          {problem}
        </p>
      )}
      {found && <Found plan={found} openDesign={props.openDesign} trans={trans} />}
    </section>
  );
}

function Found(props: {
  plan: ScalePlan;
  openDesign: (design: Design) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { plan, trans } = props;
  const { design } = plan;
  const row = (option: PlanOption) => (
    <tr key={option.title}>
      <th scope="row">
        {option.title}
        {option.problem !== '' && <div className="jp-dtf-problem">{option.problem}</div>}
      </th>
      <td>{option.reached ? trans.__('yes') : trans.__('no')}</td>
      <td className="jp-dtf-number">
        {option.point.tasks}
        {option.point.servers > 0 && ` + ${trans.__('%1 ps', option.point.servers)}`}
      </td>
      <td className="jp-dtf-number">{option.point.machines}</td>
      <td className="jp-dtf-number">{formatNumber(option.point.examples_per_second)}</td>
      <td className="jp-dtf-number">{formatPercent(option.point.efficiency)}</td>
      {plan.target.examples > 0 && <td className="jp-dtf-number">{formatNumber(option.hours)}</td>}
    </tr>
  );
  return (
    <>
      <p className={plan.reached ? '' : 'jp-dtf-problem'}>{plan.why}</p>
      {design && (
        <SmallButton accent onClick={() => props.openDesign(design)}>
          {trans.__('Open as design')}
        </SmallButton>
      )}
      <table className="jp-dtf-table">
        <caption>{trans.__('The best of each strategy')}</caption>
        <thead>
          <tr>
            <th scope="col">{trans.__('Strategy')}</th>
            <th scope="col">{trans.__('Reached')}</th>
            <th scope="col" className="jp-dtf-number">
              {trans.__('Tasks')}
            </th>
            <th scope="col" className="jp-dtf-number">
              {trans.__('Machines')}
            </th>
            <th scope="col" className="jp-dtf-number">
              {trans.__('Examples/s')}
            </th>
            <th scope="col" className="jp-dtf-number">
              {trans.__('Efficiency')}
            </th>
            {plan.target.examples > 0 && (
              <th scope="col" className="jp-dtf-number">
                {trans.__('Hours')}
              </th>
            )}
          </tr>
        </thead>
        <tbody>{[plan.best, ...plan.others].map(row)}</tbody>
      </table>
    </>
  );
}
