import { describe, expect, it } from 'vitest';

import { DEFAULTS, Design } from '../../../src/api/schema';
import { comparableRuns, compare } from '../../../src/model/comparison';
import { place, split } from '../../../src/model/layerplacement';
import { runInfo } from '../fixtures';
import { blocks, chain, layer } from '../graphs';

const [ONE, TWO, THREE] = [0, 1, 2].map(index => `/job:worker/task:${index}/device:CPU:0`) as [string, string, string];

function design(graph = chain([layer('a'), layer('b'), layer('c', 'Dropout')])): Design {
  return {
    ...(structuredClone(DEFAULTS.Design) as unknown as Design),
    model: { graph, source: { kind: 'none', path: '', variable: '' } }
  };
}

const as = (layer: string, planned: string[], actual = planned) => ({ layer, planned, actual });

describe('compare', () => {
  it('compares the plan of a run with the drawing, which may have changed since', () => {
    const drawn = design();
    place(drawn, ['a'], ONE);
    split(drawn, ['b'], [ONE, TWO]);
    const ran = [as('a', [ONE]), as('b', [ONE, TWO], [TWO, ONE]), as('c', [], [ONE])];
    expect(compare(ran, drawn)).toMatchObject({ elsewhere: 0, otherwise: 0, sameModel: true });
    place(drawn, ['b', 'c'], TWO);
    const after = compare(ran, drawn);
    expect(after).toMatchObject({ elsewhere: 0, otherwise: 2, common: 3, drawn: 3, sameModel: true });
    expect(after.layers.map(({ drawn, otherwise }) => [drawn, otherwise])).toEqual([
      [[ONE], false],
      [[TWO], true],
      [[TWO], true]
    ]);
    expect(compare([as('a', [ONE], [TWO]), ran[1]!, ran[2]!], drawn).elsewhere).toBe(1);
  });

  it('supports containers that are placed as a whole, and replicas of layers', () => {
    const drawn = design(blocks(1));
    drawn.placement.devices = { stem: ONE, block_0: ONE, 'block_0/down': TWO, head: TWO };
    const ran = [
      as('stem', [ONE]),
      as('block_0/up', [ONE]),
      as('block_0/drop', [ONE]),
      as('block_0/down', [TWO]),
      as('head', [TWO])
    ];
    expect(compare(ran, drawn)).toMatchObject({ otherwise: 0, sameModel: true });
    drawn.run.replicas = 2;
    expect(compare(ran, drawn).otherwise).toBe(5);
    expect(compare([as('stem', [ONE, THREE])], drawn).otherwise).toBe(0);
  });

  it('detects that a run had a different model', () => {
    const drawn = design();
    place(drawn, ['a', 'b', 'c'], ONE);
    const other = compare([as('a', [ONE]), as('z', [ONE])], drawn);
    expect(other).toMatchObject({ common: 1, drawn: 3, otherwise: 0, sameModel: false });
    expect(other.layers[1]!.drawn).toBeNull();
    expect(compare([as('a', [ONE]), as('b', [ONE])], drawn).sameModel).toBe(false);
  });
});

describe('comparableRuns', () => {
  it('are pipelines that have taken a step, with those of the cluster or the model separate', () => {
    const pipeline = (id: string, change: Partial<Parameters<typeof runInfo>[1]> = {}) =>
      runInfo(id, { strategy: 'pipeline', cluster: 'other', ...change });
    const progress = { done: 0, total: 0, unit: '', epoch: 0, epochs: 0 };
    const runs = [
      pipeline('elsewhere'),
      pipeline('of the model', { name: 'net' }),
      pipeline('broken at once', { state: 'failed', progress, cluster: 'lab' }),
      pipeline('broken later', { state: 'failed', cluster: 'lab' }),
      pipeline('done', { state: 'succeeded', progress, cluster: 'lab' }),
      runInfo('no pipeline', { cluster: 'lab' })
    ];
    const { own, others } = comparableRuns(runs, design(), 'lab');
    expect(own.map(({ id }) => id)).toEqual(['of the model', 'broken later', 'done']);
    expect(others.map(({ id }) => id)).toEqual(['elsewhere']);
  });
});
