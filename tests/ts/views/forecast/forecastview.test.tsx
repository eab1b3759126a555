import { nullTranslator } from '@jupyterlab/translation';
import { fireEvent, render, screen, waitFor } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import { type Design, type EfficiencyReport, type Hardware, type ScalePlan } from '../../../../src/api/schema';
import { emptyDesign } from '../../../../src/model/designtext';
import { ForecastModel, WAYS } from '../../../../src/model/forecasts';
import { Efficiency } from '../../../../src/views/forecast/efficiencyreport';
import { ForecastControls } from '../../../../src/views/forecast/forecastcontrols';
import { ForecastView } from '../../../../src/views/forecast/forecastview';
import { PlanBox } from '../../../../src/views/forecast/planbox';
import { forecastOf, forecastPoint } from '../../fixtures';

const trans = nullTranslator.load('jupyter_dtf');
const drawn = vi.fn(() => Promise.resolve());

vi.mock('../../../../src/plots/bokeh', () => ({ loadBokeh: () => Promise.resolve({}) }));
vi.mock('../../../../src/plots/scalechart', () => ({
  ScaleChart: class {
    frame = null;
    draw = drawn;
    dispose() {}
  }
}));

const hardware: Hardware = {
  devices: [
    {
      name: 'A100',
      title: 'NVIDIA A100',
      flops_per_s: { fp32: 19.5e12, bf16: 312e12, fp16: null },
      memory_bytes: 1,
      memory_bytes_per_s: 1,
      utilization: 0.5,
      source: ''
    }
  ],
  networks: [
    {
      name: 'pcie3',
      title: 'PCIe 3',
      bytes_per_s: 1,
      efficiency: { local: 1 },
      latency_s: {},
      is_local: true,
      source: ''
    },
    {
      name: '25gbit',
      title: '25 Gbit/s',
      bytes_per_s: 1,
      efficiency: { tcp: 1, rdma: 1 },
      latency_s: {},
      is_local: false,
      source: ''
    }
  ]
};

describe('ForecastControls', () => {
  it('offers precisions that the device has, and only networks between machines', () => {
    const choose = vi.fn();
    const { choices } = new ForecastModel(() => Promise.resolve([]));
    const shown = (change: object) => (
      <ForecastControls
        choices={{ ...choices, ...change }}
        ways={WAYS}
        hardware={hardware}
        ofRun={false}
        onChoose={choose}
        trans={trans}
      />
    );
    const { rerender } = render(shown({ precision: 'fp16' }));
    fireEvent.change(screen.getByLabelText('Device'), { target: { value: 'A100' } });
    expect(choose).toHaveBeenLastCalledWith({ device: 'A100', precision: 'fp32' });
    expect(screen.queryByRole('option', { name: 'PCIe 3' })).toBeNull();
    rerender(shown({ device: 'A100', network: '25gbit', ways: ['ring'] }));
    expect(screen.getByLabelText('Precision').textContent).toBe('fp32bf16');
    expect(screen.getByLabelText('Transport').textContent).toBe('TCPRDMA');
    expect(screen.getByRole<HTMLInputElement>('checkbox', { name: 'all-reduce, ring' }).disabled).toBe(true);
    fireEvent.click(screen.getByRole('checkbox', { name: 'pipeline' }));
    expect(choose).toHaveBeenLastCalledWith({ ways: ['ring', 'pipeline'] });
  });

  it('rejects an invalid number of tasks, with an error at the field', () => {
    const choose = vi.fn();
    const { choices } = new ForecastModel(() => Promise.resolve([]));
    render(<ForecastControls choices={choices} ways={WAYS} hardware={null} ofRun onChoose={choose} trans={trans} />);
    fireEvent.change(screen.getByLabelText('Up to'), { target: { value: '1.5' } });
    fireEvent.blur(screen.getByLabelText('Up to'));
    expect(screen.getByText(/from 2 to 4096, got 1\.5/)).toBeTruthy();
    expect(choose).not.toHaveBeenCalled();
  });
});

describe('ForecastView', () => {
  it('shows where scaling stops paying off, values with the keyboard, and a table of all numbers', async () => {
    const forecasts = [
      forecastOf('ring', [
        forecastPoint(1, 100),
        forecastPoint(8, 400),
        forecastPoint(64, 500, { problem: 'it needs 90 GiB' })
      ])
    ];
    const model = new ForecastModel(() => Promise.resolve(forecasts), WAYS.slice(0, 1));
    const copy = vi.fn();
    render(<ForecastView model={model} hardware={hardware} copy={copy} themeChanged={null} trans={trans} />);
    expect(screen.getByText('Computing…')).toBeTruthy();
    model.refresh();
    expect(await screen.findByText(/From 8 to 64 tasks it does not pay/)).toBeTruthy();
    expect(screen.getByText('Computation times from published figures, not measured.')).toBeTruthy();
    await waitFor(() => expect(drawn).toHaveBeenCalledWith(forecasts, [], expect.anything()));
    const slider = screen.getByRole('slider');
    expect(slider.getAttribute('aria-valuetext')).toBe('64 tasks; ring: it needs 90 GiB');
    fireEvent.keyDown(slider, { key: 'ArrowLeft' });
    expect(slider.getAttribute('aria-valuetext')).toBe('8 tasks; ring: 400 examples per second, efficiency 50%');
    const bar = screen.getAllByRole('img').map(node => node.getAttribute('aria-label'));
    expect(bar).toEqual(Array(2).fill('compute 60 ms, exchange, exposed 30 ms, update 10 ms, exchange, hidden 20 ms'));
    fireEvent.click(screen.getByRole('button', { name: 'Copy the table', hidden: true }));
    expect(copy).toHaveBeenCalledWith(expect.stringContaining('ring\t8\t400'));
  });

  it('explains why there is no forecast', async () => {
    const model = new ForecastModel(() => Promise.reject(new Error('It has taken too few steps')));
    render(<ForecastView ofRun model={model} hardware={null} copy={vi.fn()} themeChanged={null} trans={trans} />);
    model.refresh();
    expect(await screen.findByText('It has taken too few steps')).toBeTruthy();
  });
});

describe('PlanBox', () => {
  const design: Design = emptyDesign();
  const option = {
    title: 'ring',
    settings: forecastOf('ring').settings,
    reached: true,
    point: forecastPoint(12, 1100),
    hours: 2,
    device_hours: 24,
    problem: ''
  };
  const plan = (target: ScalePlan['target']): ScalePlan => ({
    target,
    reached: true,
    best: option,
    others: [],
    design,
    why: '12 tasks do it.'
  });

  it('finds the fewest machines, and opens the result as a design', async () => {
    const open = vi.fn();
    const ask = vi.fn((target: ScalePlan['target']) => Promise.resolve(plan(target)));
    render(<PlanBox settings={[]} plan={ask} openDesign={open} trans={trans} />);
    fireEvent.change(screen.getByLabelText('Target'), { target: { value: 'hours' } });
    fireEvent.change(screen.getByLabelText('How many'), { target: { value: '3' } });
    fireEvent.click(screen.getByRole('button', { name: 'Find the fewest machines' }));
    expect(screen.getByRole('alert').textContent).toBe('A target must be a number above 0, got ""');
    fireEvent.change(screen.getByLabelText('Examples in all epochs'), { target: { value: '1e6' } });
    fireEvent.click(screen.getByRole('button', { name: 'Find the fewest machines' }));
    expect(ask).toHaveBeenCalledWith({ examples_per_second: 0, hours: 3, device_hours: 0, examples: 1e6 }, []);
    fireEvent.click(await screen.findByRole('button', { name: 'Open as design' }));
    expect(open).toHaveBeenCalledWith(design);
    expect(screen.getByRole('row', { name: /ring yes 12 12 1100 92% 2$/ })).toBeTruthy();
  });
});

describe('Efficiency', () => {
  it('shows each part next to its forecast, and which parts were not measured', () => {
    const report: EfficiencyReport = {
      run: 'a',
      title: 'digits',
      tasks: 2,
      steps: 84,
      examples_per_second: 11_890,
      forecast_examples_per_second: 12_100,
      efficiency: 0.93,
      gaps: [
        { part: 'step', forecast_s: 0.005, measured_s: 0.006, text: '' },
        { part: 'input', forecast_s: 0, measured_s: null, text: 'not measured' }
      ],
      slowest: 'worker:1',
      findings: ['Straggler: worker:1 takes 6.1 ms']
    };
    render(<Efficiency report={report} trans={trans} />);
    expect(screen.getByText(/Efficiency: 93% of the speed of tasks that never wait for each other/)).toBeTruthy();
    expect(screen.getByRole('row', { name: /whole step 5(\.0)? ms 6(\.0)? ms \+1(\.0)? ms/ })).toBeTruthy();
    expect(screen.getByRole('row', { name: /input .* – not measured/ })).toBeTruthy();
    expect(screen.getByText('Straggler: worker:1 takes 6.1 ms')).toBeTruthy();
  });
});
