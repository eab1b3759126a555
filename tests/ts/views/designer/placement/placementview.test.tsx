import { nullTranslator } from '@jupyterlab/translation';
import { fireEvent, render, screen, within } from '@testing-library/react';
import React from 'react';
import { describe, expect, it, vi } from 'vitest';

import { DEFAULTS, Design, DeviceLoad, RunInfo, RunPlacement } from '../../../../../src/api/schema';
import { compare } from '../../../../../src/model/comparison';
import { openAll, shownNodes, treeOf } from '../../../../../src/model/layergraph';
import { devicesOf, place, split } from '../../../../../src/model/layerplacement';
import { looksOf } from '../../../../../src/views/designer/graph/graphappearance';
import { PlacementBar } from '../../../../../src/views/designer/placement/placementbar';
import { Compare } from '../../../../../src/views/designer/placement/placementcompare';
import { DeviceStrip } from '../../../../../src/views/designer/placement/placementdevices';
import { Forecast } from '../../../../../src/views/designer/placement/placementforecast';
import { Gantt } from '../../../../../src/views/designer/placement/placementgantt';
import { Legend } from '../../../../../src/views/designer/placement/placementlegend';
import { Properties } from '../../../../../src/views/designer/placement/placementproperties';
import { RunFields } from '../../../../../src/views/designer/placement/placementrun';
import type { PlacementServices } from '../../../../../src/views/designer/placement/placementservices';
import { runInfo } from '../../../fixtures';
import { blocks, chain, layer } from '../../../graphs';

const trans = nullTranslator.load('jupyter_dtf');
const [ONE, TWO] = ['/job:worker/task:0/device:CPU:0', '/job:worker/task:1/device:CPU:0'];
const colours = new Map([
  ['worker:0', '#0072b2'],
  ['worker:1', '#e69f00']
]);

function design(graph = chain([layer('a'), layer('b'), layer('c', 'Dropout')])): Design {
  return {
    ...(structuredClone(DEFAULTS.Design) as unknown as Design),
    model: { graph, source: { kind: 'none', path: '', variable: '' } }
  };
}

function load(device: string, problem = ''): DeviceLoad {
  return {
    device,
    memory_bytes: 2 ** 30,
    memory_limit_bytes: 2 ** 31,
    share: 0.25,
    busy_s: 1,
    sent_bytes: 2048,
    received_bytes: 4096,
    layers: 1,
    problem,
    unused: '',
    filled_bytes: 0
  };
}

describe('DeviceStrip', () => {
  it('shows what each device holds, and why something does not fit', () => {
    const onChoose = vi.fn();
    const onLeave = vi.fn();
    const strip = (choosing: boolean) => (
      <DeviceStrip
        devices={devicesOf(design(), null)}
        loads={new Map([ONE, TWO].map((device, index) => [device, load(device, index === 1 ? 'too large' : '')]))}
        counts={new Map([[ONE, 3]])}
        colours={colours}
        choosing={choosing}
        selected={2}
        onChoose={onChoose}
        onLeave={onLeave}
        trans={trans}
      />
    );
    const { rerender } = render(strip(false));
    const first = screen.getByRole('option', { name: 'worker:0 CPU:0, 3 layers' });
    expect(first.textContent).toContain('1.0 / 2.0 GiB');
    expect(first.textContent).toContain('25%');
    expect(screen.getByRole('option', { name: 'worker:1 CPU:0, 0 layers, too large' }).className).toContain('problem');
    rerender(strip(true));
    expect(document.activeElement).toBe(first);
    fireEvent.keyDown(first, { key: 'ArrowRight' });
    fireEvent.keyDown(document.activeElement!, { key: 'Enter' });
    expect(onChoose).toHaveBeenCalledWith(TWO);
    fireEvent.keyDown(document.activeElement!, { key: 'Escape' });
    expect(onLeave).toHaveBeenCalled();
  });
});

describe('a placement over 512 devices', () => {
  const many = devicesOf({ ...design(), cluster: { ...design().cluster, jobs: { worker: 512 } } }, null);
  const loads = new Map(
    many.map(({ device }, index) => [device, load(device, index === 100 ? 'too large' : '')] as const)
  );

  it('has a card for each range, which expands with a click and with the keyboard', () => {
    const onChoose = vi.fn();
    render(
      <DeviceStrip
        devices={many}
        loads={loads}
        counts={new Map([[ONE, 3]])}
        colours={colours}
        choosing={false}
        selected={0}
        onChoose={onChoose}
        onLeave={vi.fn()}
        trans={trans}
      />
    );
    const names = () => screen.getAllByRole('option').map(card => card.getAttribute('aria-label'));
    expect(names()).toHaveLength(1 + 16);
    expect(names()[0]).toBe('worker:100 CPU:0, 0 layers, too large');
    expect(names()[1]).toBe('worker:0–31, 32 devices, 3 layers, Expand these devices');
    fireEvent.click(screen.getAllByRole('option')[1]!);
    expect(names()).toHaveLength(1 + 16 + 32);
    expect(names()[2]).toBe('worker:0 CPU:0, 3 layers');
    const range = screen.getByRole('option', { name: 'worker:0–31, 32 devices, 3 layers, Collapse these devices' });
    range.focus();
    fireEvent.keyDown(range, { key: 'ArrowRight' });
    fireEvent.keyDown(document.activeElement!, { key: 'Enter' });
    expect(onChoose).toHaveBeenCalledWith(ONE);
    fireEvent.keyDown(document.activeElement!, { key: 'ArrowLeft' });
    fireEvent.keyDown(document.activeElement!, { key: 'Enter' });
    expect(names()).toHaveLength(1 + 16);
    expect(document.activeElement).toBe(screen.getAllByRole('option')[1]);
  });

  it('shows a step in a few rows, and one line in the legend', () => {
    const slots = many.map(({ device }, index) => ({
      device,
      microbatch: 0,
      phase: 'forward',
      start_s: index < 256 ? 0 : 1,
      duration_s: 1
    }));
    const { container } = render(<Gantt part={{ title: 'predicted', slots }} colours={colours} trans={trans} />);
    const rows = [...container.querySelectorAll('.jp-dtf-gantt-names span')].map(row => row.textContent);
    expect(rows.length).toBeLessThanOrEqual(24);
    expect(rows[0]).toBe('worker:0–21');
    expect(container.querySelector('svg title')?.textContent).toBe('worker:0–21: 22 devices, busy 50% of the step');
    const legend = render(
      <Legend colourBy="device" devices={many} colours={colours} calibrated={false} trans={trans} />
    );
    expect(legend.container.textContent).toContain('colors for worker:0–511, each shared by several tasks');
    expect(legend.container.querySelectorAll('.jp-dtf-swatch')).toHaveLength(1);
  });
});

describe('Properties', () => {
  const actions = {
    unplace: vi.fn(),
    pin: vi.fn(),
    split: vi.fn(),
    unsplit: vi.fn(),
    path: null,
    chooseDevice: vi.fn()
  };
  const panel = (drawn: Design, ids: string[]) => (
    <Properties
      layers={drawn.model!.graph.layers.filter(({ id }) => ids.includes(id))}
      design={drawn}
      devices={devicesOf(drawn, null)}
      editable
      actions={actions}
      trans={trans}
    />
  );

  it('splits a layer over two or more devices', () => {
    const drawn = design();
    place(drawn, ['a'], ONE);
    render(panel(drawn, ['a']));
    const button = screen.getByRole<HTMLButtonElement>('button', { name: 'Split' });
    expect(button.disabled).toBe(true);
    fireEvent.click(screen.getByLabelText('worker:1 CPU:0'));
    fireEvent.click(button);
    expect(actions.split).toHaveBeenCalledWith([ONE, TWO]);
    fireEvent.click(screen.getByRole('button', { name: 'Unpin' }));
    expect(actions.pin).toHaveBeenCalledWith(false);
  });

  it('checks the devices of a layer, also after it was moved', () => {
    const drawn = design();
    const ticked = () =>
      screen.getAllByRole<HTMLInputElement>('checkbox').flatMap(({ checked }, index) => (checked ? [index] : []));
    place(drawn, ['a'], ONE);
    const { rerender } = render(panel(drawn, ['a']));
    expect(ticked()).toEqual([0]);
    const moved = structuredClone(drawn);
    place(moved, ['a'], TWO);
    rerender(panel(moved, ['a']));
    expect(ticked()).toEqual([1]);
  });

  it('sums over the selected layers', () => {
    render(panel(design(), ['a', 'b', 'c']));
    const values = within(screen.getByRole('complementary', { name: 'Selection' }));
    expect(values.getByText('Dense, Dropout')).toBeTruthy();
    expect(values.getByText('30')).toBeTruthy(); // parameters
    expect(values.queryByText('Split its columns over')).toBeNull();
  });
});

describe('Compare', () => {
  it('shows which layers ran elsewhere, and can show only these', () => {
    const onShow = vi.fn();
    const layers = [
      { layer: 'a', planned: [ONE], actual: [ONE] },
      { layer: 'b', planned: [ONE, TWO], actual: [TWO, ONE] },
      { layer: 'c', planned: [ONE], actual: [TWO] }
    ];
    const drawn = design();
    place(drawn, ['a', 'c'], ONE);
    split(drawn, ['b'], [ONE, TWO]);
    render(<Compare compared={compare(layers, drawn)} onShow={onShow} trans={trans} />);
    expect(screen.queryByText('Drawn')).toBeNull();
    expect(screen.getByText('1 layer ran elsewhere than planned')).toBeTruthy();
    fireEvent.click(screen.getByLabelText('only where they differ'));
    expect(screen.getAllByRole('row')).toHaveLength(2);
    fireEvent.click(screen.getByRole('button', { name: 'c' }));
    expect(onShow).toHaveBeenCalledWith('c');
  });

  it('shows where the drawing differs from the plan', () => {
    const layers = ['a', 'b', 'c'].map(layer => ({ layer, planned: [ONE], actual: [ONE] }));
    const drawn = design();
    place(drawn, ['a'], ONE);
    place(drawn, ['b'], TWO);
    render(<Compare compared={compare(layers, drawn)} onShow={vi.fn()} trans={trans} />);
    expect(screen.getByText('All 3 layers ran where they were planned')).toBeTruthy();
    expect(screen.getByText('The plan of this run differs from the drawing in 2 layers')).toBeTruthy();
    expect(screen.getByRole('row', { name: 'b worker:0 CPU:0 worker:0 CPU:0 ≠ worker:1 CPU:0' })).toBeTruthy();
    expect(screen.getByRole('row', { name: 'c worker:0 CPU:0 worker:0 CPU:0 ≠ not placed' })).toBeTruthy();
  });

  it('does not report a match for a run of another model', () => {
    const layers = ['a', 'z'].map(layer => ({ layer, planned: [ONE], actual: [ONE] }));
    const drawn = design();
    place(drawn, ['a', 'b', 'c'], ONE);
    render(<Compare compared={compare(layers, drawn)} onShow={vi.fn()} trans={trans} />);
    expect(screen.getByRole('status').textContent).toBe(
      'This run trained another model: 1 of its 2 layers are in the drawing, which has 3'
    );
    expect(screen.getByRole('row', { name: /^z .* ≠ not in the drawing$/ })).toBeTruthy();
  });
});

describe('PlacementBar', () => {
  const bar = (runs: RunInfo[], clusters: string[]) => {
    const drawn = design();
    const services = { clusterName: () => 'lab', clusters: () => clusters, runs: () => runs };
    const nothing = vi.fn();
    return (
      <PlacementBar
        source={drawn.model!.source}
        editable
        colourBy="device"
        onColourBy={nothing}
        onFold={nothing}
        onUnfold={nothing}
        tree={treeOf(drawn.model!.graph)}
        onFound={nothing}
        onPick={nothing}
        services={services as unknown as PlacementServices}
        design={drawn}
        run=""
        onRun={nothing}
        work={{ title: '', problem: '', start: nothing, cancel: nothing }}
        onModel={nothing}
        onPlaced={nothing}
        onProfiled={nothing}
        onCode={nothing}
        trans={trans}
      />
    );
  };

  it('offers the runs of the design first, with their states', () => {
    const change = { strategy: 'pipeline', name: 'net' };
    const runs = [
      runInfo('1', { ...change, name: 'other' }),
      runInfo('2', { ...change, state: 'failed' }),
      runInfo('3', { ...change, state: 'succeeded' })
    ];
    render(bar(runs, []));
    const choice = screen.getByLabelText('compare with');
    expect([...choice.querySelectorAll('optgroup')].map(({ label }) => label)).toEqual([
      'Runs of this cluster or model',
      'Other runs'
    ]);
    expect(
      within(choice)
        .getAllByRole<HTMLOptionElement>('option')
        .map(({ value }) => value)
    ).toEqual(['', '2', '3', '1']);
    expect(within(choice).getByText(/^net, .*, failed$/)).toBeTruthy();
    expect(within(choice).getByText(/^net, [\d:]+$/)).toBeTruthy();
  });

  it('measures on the cluster of the design by default if there are several', () => {
    render(bar([], ['aaa', 'lab']));
    expect(screen.getByLabelText<HTMLSelectElement>('The cluster to measure on').value).toBe('lab');
  });
});

describe('Forecast', () => {
  it('shows the predicted step above the median of the measured ones, and the traced step separately', () => {
    const slot = { device: ONE, microbatch: 0, phase: 'forward', start_s: 0, duration_s: 0.2 };
    const prediction = {
      step_seconds: 0.2,
      bubble: 0.14,
      batch_size: 64,
      microbatches: 8,
      calibrated: true,
      devices: [load(ONE)],
      cuts: [],
      timeline: [slot],
      problems: []
    };
    const traced = { layers: [], timeline: [{ ...slot, duration_s: 0.25 }], step_seconds: 0.25 };
    const steps = { count: 96, left_out: 4, median_s: 0.21, low_s: 0.2, high_s: 0.22, batch_size: 32 };
    const forecast = (measured: RunPlacement) => (
      <Forecast
        prediction={prediction}
        measured={measured}
        batchSize={64}
        devices={1}
        colours={colours}
        trans={trans}
      />
    );
    const { rerender } = render(forecast({ ...traced, steps }));
    expect(screen.getByText('predicted step 200 ms · bubble 14% · fits')).toBeTruthy();
    expect(
      screen.getByText(
        'measured step 210 ms: the median of 96 steps, half of them from 200 ms to 220 ms · without the first 4 · ' +
          'with 32 examples, not 64 as in the drawing · the traced step, drawn below, took 250 ms'
      )
    ).toBeTruthy();
    expect(screen.getAllByRole('img').map(image => image.getAttribute('aria-label'))).toEqual([
      'predicted step of 200 ms',
      'traced step of 250 ms'
    ]);
    rerender(forecast({ ...traced, steps: null }));
    expect(
      screen.getByText('The run has too few steps for a measurement · the traced step, drawn below, took 250 ms')
    ).toBeTruthy();
  });

  it('has fewer ticks on its axis if there is less room', () => {
    const slot = { device: ONE, microbatch: 0, phase: 'forward', start_s: 0, duration_s: 0.00442 };
    const times = (width: number) => {
      vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(width);
      const { container, unmount } = render(
        <Gantt part={{ title: 'predicted', slots: [slot] }} colours={colours} trans={trans} />
      );
      const lefts = [...container.querySelectorAll<HTMLElement>('.jp-dtf-gantt-axis > span')].map(({ style }) =>
        parseFloat(style.left)
      );
      unmount();
      return lefts.map(left => (left * width) / 100);
    };
    for (const width of [120, 200, 300, 500, 900, 1600]) {
      const at = times(width);
      expect(at.length).toBeGreaterThan(0);
      for (const [index, left] of at.entries()) {
        expect((at[index + 1] ?? width) - left).toBeGreaterThan(48);
      }
    }
    vi.restoreAllMocks();
  });
});

describe('RunFields', () => {
  const onChange = vi.fn();
  const message = '`microbatches` must be from 1 to 256, got 300';
  const fields = (editable: boolean) => (
    <RunFields
      run={{ batch_size: 64, microbatches: 300, replicas: 1, epochs: 2 }}
      problems={[{ field: 'run.microbatches', message, level: 'error', line: 0, column: 0 }]}
      editable={editable}
      onChange={onChange}
      trans={trans}
    />
  );

  it('changes one number at a time, with the arrow keys or by typing', () => {
    render(fields(true));
    expect(screen.getAllByRole<HTMLInputElement>('textbox').map(({ value }) => value)).toEqual(['64', '300', '1', '2']);
    fireEvent.keyDown(screen.getByLabelText('epochs'), { key: 'ArrowUp' });
    expect(onChange).toHaveBeenLastCalledWith('epochs', { epochs: 3 });
    const batch = screen.getByLabelText('batch size');
    fireEvent.change(batch, { target: { value: '128' } });
    fireEvent.keyDown(batch, { key: 'Enter' });
    expect(onChange).toHaveBeenLastCalledWith('batch size', { batch_size: 128 });
  });

  it('accepts whole numbers from 1, and shows problems that the server reports', () => {
    onChange.mockClear();
    render(fields(true));
    expect(screen.getByText(message)).toBeTruthy();
    const replicas = screen.getByLabelText('replicas');
    for (const wrong of ['0', '1.5', '', 'two']) {
      fireEvent.change(replicas, { target: { value: wrong } });
      fireEvent.keyDown(replicas, { key: 'Enter' });
      expect(screen.getByText(`replicas must be a whole number of at least 1, got ${wrong}`.trim())).toBeTruthy();
    }
    expect(onChange).not.toHaveBeenCalled();
  });

  it('is disabled if it is not editable', () => {
    render(fields(false));
    expect(screen.getAllByRole<HTMLInputElement>('textbox').every(({ disabled }) => disabled)).toBe(true);
  });
});

describe('looksOf', () => {
  it('shows the shares of a block on its devices, and marks layers that ran elsewhere', () => {
    const drawn = design(blocks(3));
    const tree = treeOf(drawn.model!.graph);
    place(drawn, ['block_0/up', 'block_0/drop'], ONE);
    place(drawn, ['block_0/down'], TWO);
    const { open } = openAll(tree, 1000);
    const looks = looksOf(tree, drawn, shownNodes(tree, open), open, 'device', colours, new Set(['block_0/down']));
    const look = looks.get('block_0')!;
    expect(look.shares.map(({ device, colour }) => [device, colour])).toEqual([
      [ONE, '#0072b2'],
      [TWO, '#e69f00']
    ]);
    expect([look.pinned, look.differ, looks.get('stem')!.shares[0]!.device]).toEqual([true, 1, null]);
    const heated = looksOf(tree, drawn, shownNodes(tree, open), open, 'memory', colours, new Set());
    expect(heated.get('block_1/up')!.heat).toBe(1);
    expect(heated.get('block_1')!.heat).toBeNull();
  });
});
