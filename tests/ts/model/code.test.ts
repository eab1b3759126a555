import { describe, expect, it } from 'vitest';

import { DEFAULTS, Design, ModelSource } from '../../../src/api/schema';
import { connectCode, fitCode, hasImport } from '../../../src/model/code';
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
  it('imports the package unless the notebook has', () => {
    expect(connectCode('digits', true)).toBe('import jupyter_dtf as dtf\n\ncluster = dtf.connect("digits")');
    expect(connectCode('digits', false)).toBe('cluster = dtf.connect("digits")');
    expect(hasImport('import numpy\nimport jupyter_dtf as dtf\n')).toBe(true);
    expect(hasImport('import jupyter_dtf as dtf, keras')).toBe(true);
    expect(hasImport('import os, jupyter_dtf as dtf  # the clusters')).toBe(true);
    expect(hasImport('# import jupyter_dtf as dtf')).toBe(false);
    expect(hasImport('import os  # import jupyter_dtf as dtf')).toBe(false);
  });
});

describe('fitCode', () => {
  it('brings all that a notebook without any of it needs', () => {
    const drawn = design({ kind: 'file', path: 'lab/models/digits.keras' });
    expect(fitCode(drawn, 'lab/digits.dtf', null, { folder: 'lab', cells: ['x, y = load()'] })).toBe(
      `import jupyter_dtf as dtf
import keras

cluster = dtf.Cluster(design="digits.dtf", name="digits")
model = keras.models.load_model("models/digits.keras")
${fit('model')}`
    );
  });

  it('connects to the cluster of the design where that runs', () => {
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

  it('repeats nothing that the notebook has', () => {
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

  it('says which model is meant where Keras cannot load what trains', () => {
    const drawn = design({ kind: 'file', path: 'saved' });
    const cells = ['import jupyter_dtf as dtf', 'cluster = dtf.connect("digits")'];
    expect(fitCode(drawn, 'digits.dtf', null, { folder: '', cells })).toBe(
      `# model: the compiled Keras model that was exported to "saved"\n${fit('model')}`
    );
  });
});
