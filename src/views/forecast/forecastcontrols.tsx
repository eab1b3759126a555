import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Hardware } from '../../api/schema';
import { type ForecastChoices, MOST_TASKS, type Way } from '../../model/forecasts';
import { CommitField } from '../designer/commitfield';
import { wayName } from './forecasttext';

/** The settings of a forecast: strategies, device, network, batch, and the largest number of tasks. */
export function ForecastControls(props: {
  choices: ForecastChoices;
  ways: readonly Way[];
  hardware: Hardware | null;
  /** Whether the forecast is that of a run, whose device and batch are then the default. */
  ofRun: boolean;
  onChoose: (change: Partial<ForecastChoices>) => void;
  trans: TranslationBundle;
}): React.ReactElement {
  const { choices, ways, hardware, ofRun, onChoose, trans } = props;
  const device = hardware?.devices.find(({ name }) => name === choices.device);
  const precisions = Object.entries(device?.flops_per_s ?? {}).flatMap(([name, peak]) => (peak === null ? [] : [name]));
  const networks = hardware?.networks.filter(({ is_local }) => !is_local) ?? [];
  const network = networks.find(({ name }) => name === choices.network);
  const transports = Object.entries(network?.efficiency ?? {}).flatMap(([name, part]) => (part === null ? [] : [name]));
  const pick = (known: readonly string[], wanted: string) => (known.includes(wanted) ? wanted : (known[0] ?? wanted));
  const readWhole = (typed: string, least: number, most: number, rule: string) => {
    const value = typed.trim() === '' ? least : Number(typed);
    return Number.isInteger(value) && value >= least && value <= most ? { value } : { problem: rule };
  };
  return (
    <div className="jp-dtf-forecast-controls" role="group" aria-label={trans.__('Forecast settings')}>
      <fieldset>
        <legend>{trans.__('Strategies')}</legend>
        {ways.map(({ id }) => (
          <label key={id}>
            <input
              type="checkbox"
              checked={choices.ways.includes(id)}
              // At least one must be chosen.
              disabled={choices.ways.length === 1 && choices.ways[0] === id}
              onChange={event =>
                onChoose({
                  ways: event.target.checked ? [...choices.ways, id] : choices.ways.filter(other => other !== id)
                })
              }
            />
            {wayName(id, trans)}
          </label>
        ))}
      </fieldset>
      <div className="jp-dtf-forecast-fields">
        <label>
          {trans.__('Device')}
          <select
            value={choices.device}
            onChange={event => {
              const chosen = hardware?.devices.find(({ name }) => name === event.target.value);
              const known = Object.entries(chosen?.flops_per_s ?? {}).flatMap(([name, peak]) =>
                peak === null ? [] : [name]
              );
              onChoose({ device: event.target.value, precision: pick(known, choices.precision) });
            }}
          >
            <option value="">
              {ofRun ? trans.__('as measured in the run') : trans.__('as profiled, else assumed')}
            </option>
            {hardware?.devices.map(({ name, title }) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
        {precisions.length > 1 && (
          <label>
            {trans.__('Precision')}
            <select value={choices.precision} onChange={event => onChoose({ precision: event.target.value })}>
              {precisions.map(name => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        <label>
          {trans.__('Network')}
          <select
            value={choices.network}
            onChange={event => {
              const chosen = networks.find(({ name }) => name === event.target.value);
              const known = Object.entries(chosen?.efficiency ?? {}).flatMap(([name, part]) =>
                part === null ? [] : [name]
              );
              onChoose({ network: event.target.value, transport: pick(known, choices.transport) });
            }}
          >
            <option value="">{trans.__('as measured, else 10 Gbit/s')}</option>
            {networks.map(({ name, title }) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
        {transports.length > 1 && (
          <label>
            {trans.__('Transport')}
            <select value={choices.transport} onChange={event => onChoose({ transport: event.target.value })}>
              {transports.map(name => (
                <option key={name} value={name}>
                  {name.toUpperCase()}
                </option>
              ))}
            </select>
          </label>
        )}
        <label>
          {trans.__('Batch for')}
          <select
            value={choices.batchOf}
            onChange={event => onChoose({ batchOf: event.target.value as ForecastChoices['batchOf'] })}
          >
            <option value="device">{trans.__('each device (weak scaling)')}</option>
            <option value="all">{trans.__('all together (strong scaling)')}</option>
          </select>
        </label>
        <CommitField<number>
          label={trans.__('Examples per batch')}
          text={choices.batch > 0 ? String(choices.batch) : ''}
          placeholder={ofRun ? trans.__('as in the run') : trans.__('as in the design')}
          disabled={false}
          read={typed =>
            typed.trim() === '' // as in the run or the design
              ? { value: 0 }
              : readWhole(
                  typed,
                  1,
                  1e9,
                  trans.__('Examples per batch must be a whole number of at least 1, got %1', typed)
                )
          }
          onCommit={batch => onChoose({ batch })}
        />
        <CommitField<number>
          label={trans.__('Up to')}
          text={String(choices.upTo)}
          unit={trans.__('tasks')}
          disabled={false}
          read={typed =>
            readWhole(
              typed,
              2,
              MOST_TASKS,
              trans.__('The number of tasks must be a whole number from 2 to %1, got %2', MOST_TASKS, typed)
            )
          }
          onCommit={upTo => onChoose({ upTo })}
        />
      </div>
    </div>
  );
}
