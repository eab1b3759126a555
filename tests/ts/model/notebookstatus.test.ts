import { expect, it } from 'vitest';

import { factsOf, runOn } from '../../../src/model/notebookstatus';
import { clusterInfo, runInfo } from '../fixtures';

it('shows the newest run in progress or, if there is none, the newest of this cluster', () => {
  const cluster = clusterInfo('digits', { created: 1000 });
  const find = (...runs: Parameters<typeof runInfo>[1][]) => {
    const found = runOn(
      cluster,
      runs.map((change, index) => runInfo(String(index), change))
    );
    return found && [found.run.id, found.others];
  };
  expect(find({ cluster: 'other' })).toBeNull();
  expect(find({ state: 'failed', created: 999 })).toBeNull(); // of an earlier cluster with this name
  expect(find({ state: 'failed', created: 1001 }, { state: 'succeeded', created: 1002 })).toEqual(['1', 0]);
  expect(find({ state: 'succeeded', created: 1009 }, { created: 1001 }, { created: 1005 })).toEqual(['2', 1]);
});

it('shows the progress and the value of a run, if they are known', () => {
  expect(factsOf(runInfo('a'))).toEqual(['58%', 'loss 0.031']);
  expect(factsOf(runInfo('a', { state: 'succeeded' }))).toEqual(['loss 0.031']);
  const begun = runInfo('a', { headline: {}, progress: { done: 0, total: 0, unit: '', epoch: 0, epochs: 0 } });
  expect(factsOf(begun)).toEqual([]);
});
