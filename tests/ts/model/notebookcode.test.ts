import { describe, expect, it } from 'vitest';

import { DEFAULTS, Design, ModelSource } from '../../../src/api/schema';
import { NOTEBOOK_CODE, connectCode, fitCode, hasNotebookCode } from '../../../src/model/notebookcode';
import { chain, layer } from '../graphs';

function design(source: Partial<ModelSource>): Design {
  return {
    ...(structuredClone(DEFAULTS.Design) as unknown as Design),
    model: { graph: chain([layer('a')]), source: { kind: 'none', path: '', variable: '', ...source } }
  };
}

const fit = (model: string, path = 'digits.dtf') => `run = cluster.fit(
    ${model}, x, y, batch_size=64, epochs=1,
    strategy=dtf.Pipeline("${path}", microbatches=8),
)`;

describe('code', () => {
  it('connects without any other code', () => {
    expect(connectCode('digits')).toBe('import jupyter_dtf as dtf\n\ncluster = dtf.cluster("digits")');
    expect(NOTEBOOK_CODE).toBe('import jupyter_dtf as dtf\n\ncluster = dtf.cluster()');
  });

  it.each([
    ['cluster = dtf.cluster()', true],
    ['x = 1\nrun = dtf.cluster(jobs=2).fit(model, x)', true],
    ['# cluster = dtf.cluster()', false],
    ['cluster = dtf.Cluster(jobs={"worker": 2})', false],
    ['cluster = dtf.connect("digits")', false]
  ])('detects in %j whether the notebook uses its cluster', (cell, asks) => {
    expect(hasNotebookCode(['1 + 1', cell])).toBe(asks);
  });

  it.each([
    ['import numpy\nimport jupyter_dtf as dtf\n', true],
    ['import jupyter_dtf as dtf, keras', true],
    ['import os, jupyter_dtf as dtf  # the clusters', true],
    ['# import jupyter_dtf as dtf', false],
    ['import os  # import jupyter_dtf as dtf', false]
  ])('detects in %j whether the package is already imported', (cell, imported) => {
    const code = fitCode(design({}), 'digits.dtf', null, { folder: '', cells: [cell] });
    expect(code.startsWith('import jupyter_dtf as dtf')).toBe(!imported);
  });
});

describe('fitCode', () => {
  it('contains everything that is missing in the notebook', () => {
    const drawn = design({ kind: 'file', path: 'lab/models/digits.keras' });
    expect(fitCode(drawn, 'lab/digits.dtf', null, { folder: 'lab', cells: ['x, y = load()'] })).toBe(
      `import jupyter_dtf as dtf
import keras

cluster = dtf.Cluster(design="digits.dtf", name="digits")
model = keras.models.load_model("models/digits.keras")
${fit('model')}`
    );
  });

  it('connects to the cluster of the design if it is running', () => {
    const drawn = design({ kind: 'kernel', path: 'train.ipynb', variable: 'net' });
    drawn.run.replicas = 2;
    expect(fitCode(drawn, 'digits.dtf', 'digits', { folder: 'notebooks', cells: [] })).toBe(
      `import jupyter_dtf as dtf

cluster = dtf.connect("digits")
run = cluster.fit(
    net, x, y, batch_size=64, epochs=1,
    strategy=dtf.Pipeline("../digits.dtf", microbatches=8, replicas=2),
)`
    );
  });

  it('repeats nothing that the notebook already has', () => {
    const drawn = design({ kind: 'file', path: 'digits.keras' });
    const place = { folder: '', cells: [] as string[] };
    place.cells.push(fitCode(drawn, 'digits.dtf', 'digits', place));
    expect(fitCode(drawn, 'digits.dtf', 'digits', place)).toBe(fit('model'));
    const cells = ['import keras, jupyter_dtf as dtf', 'cluster = dtf.Cluster({"worker": 2}, threads_per_host=1)'];
    expect(fitCode(drawn, 'digits.dtf', 'digits', { folder: '', cells })).toBe(
      `model = keras.models.load_model("digits.keras")\n${fit('model')}`
    );
    expect(fitCode(drawn, 'd.dtf', 'digits', { folder: '', cells: ['if cluster == 1: pass'] })).toContain('connect');
  });

  it('names the model in a comment if Keras cannot load it for training', () => {
    const drawn = design({ kind: 'file', path: 'saved' });
    const cells = ['import jupyter_dtf as dtf', 'cluster = dtf.connect("digits")'];
    expect(fitCode(drawn, 'digits.dtf', null, { folder: '', cells })).toBe(
      `# model: the compiled Keras model that was exported to "saved"\n${fit('model')}`
    );
  });
});
