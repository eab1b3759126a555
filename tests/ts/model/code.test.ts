import { describe, expect, it } from 'vitest';

import { connectCode, hasImport } from '../../../src/model/code';

describe('code', () => {
  it('imports the package unless the notebook has', () => {
    expect(connectCode('digits', true)).toBe('import jupyter_dtf as dtf\n\ncluster = dtf.connect("digits")');
    expect(connectCode('digits', false)).toBe('cluster = dtf.connect("digits")');
    expect(hasImport('import numpy\nimport jupyter_dtf as dtf\n')).toBe(true);
    expect(hasImport('# import jupyter_dtf as dtf')).toBe(false);
  });
});
