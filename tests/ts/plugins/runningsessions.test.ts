import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { expect, it, vi } from 'vitest';

import type { ClusterInfo, RunInfo } from '../../../src/api/schema';
import { runningClusters, runningRuns } from '../../../src/plugins/runningsessions';
import { CommandIDs, type IDtf } from '../../../src/tokens';
import { clusterInfo, runInfo } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

function page(clusters: ClusterInfo[], runs: RunInfo[]) {
  const changed = new Signal<object, void>({});
  const stop = { cluster: vi.fn(() => Promise.resolve()), run: vi.fn(() => Promise.resolve()) };
  const dtf = {
    clusters: { clusters, changed, stop: stop.cluster },
    runs: { runs, changed, stop: stop.run }
  };
  const run = vi.fn();
  const managers = [runningClusters, runningRuns].map(make => make(dtf as unknown as IDtf, trans, run));
  return { dtf, changed, stop, run, clusters: managers[0]!, runs: managers[1]! };
}

it('lists active clusters and runs, and can open and stop them', () => {
  const { clusters, runs, run } = page(
    [
      clusterInfo('digits', { active_runs: 1 }),
      clusterInfo('ends', { state: 'stopping' }),
      clusterInfo('gone', { state: 'lost' })
    ],
    [runInfo('a'), runInfo('b', { state: 'pausing' }), runInfo('c', { state: 'succeeded' })]
  );
  const [digits, ends, ...none] = clusters.running({ mode: 'list' });
  expect([digits!.label(), digits!.detail?.(), ends!.detail?.(), none]).toEqual([
    'digits',
    '2 workers · 1 run',
    'stopping',
    []
  ]);
  expect(ends!.shutdown).toBeUndefined();
  digits!.open?.();
  digits!.shutdown?.();
  const [going, pausing, ...past] = runs.running({ mode: 'list' });
  expect([going!.label(), going!.detail?.(), pausing!.detail?.(), past]).toEqual([
    'name-a',
    'digits · 58% · loss 0.031',
    'digits · pausing · 58% · loss 0.031',
    []
  ]);
  going!.open?.();
  going!.shutdown?.();
  expect(run.mock.calls).toEqual([
    [CommandIDs.showPanel],
    [CommandIDs.stopCluster, { name: 'digits' }],
    [CommandIDs.openRun, { run: 'a' }],
    [CommandIDs.stopRun, { run: 'a' }]
  ]);
});

it('stops all that can be stopped, and asks with the number of runs that this ends', () => {
  const { clusters, runs, stop } = page(
    [clusterInfo('one', { active_runs: 2 }), clusterInfo('two', { state: 'stopping' })],
    [runInfo('a'), runInfo('b', { state: 'stopping' }), runInfo('c', { state: 'failed' })]
  );
  const asks = clusters.shutdownAllConfirmationText as () => string;
  expect(asks()).toMatch(/stop all clusters\? 2 runs on them/);
  clusters.shutdownAll();
  runs.shutdownAll();
  expect(stop.cluster.mock.calls).toEqual([['one']]);
  expect(stop.run.mock.calls).toEqual([['a']]);
});

it('is updated only when its text changes', () => {
  const { dtf, changed, runs } = page([], [runInfo('a')]);
  const drawn = vi.fn();
  runs.runningChanged.connect(drawn);
  changed.emit();
  expect(drawn).not.toHaveBeenCalled();
  dtf.runs.runs = [runInfo('a', { headline: { loss: 0.03 } })];
  changed.emit();
  changed.emit();
  expect(drawn).toHaveBeenCalledOnce();
});
