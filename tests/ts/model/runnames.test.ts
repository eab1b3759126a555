import { describe, expect, it } from 'vitest';

import { baseName, differences } from '../../../src/model/runnames';
import { runInfo } from '../fixtures';

describe('differences', () => {
  const run = (id: string, name: string, parameters: Record<string, unknown>, jobs = { worker: 2 }) =>
    runInfo(id, { name, parameters, jobs });

  it('are the options that differ among runs of one name, and the jobs if none do', () => {
    const found = differences([
      run('a', 'mlp', { batch_size: 32, optimizer: 'Adam', epochs: 5 }),
      run('b', 'mlp 2', { batch_size: 64, optimizer: 'Adam', epochs: 5 }),
      run('c', 'mlp 3', { batch_size: 64, optimizer: 'SGD', epochs: 5 }),
      run('d', 'cnn', { batch_size: 64, optimizer: 'SGD' })
    ]);
    expect(Object.fromEntries(found)).toEqual({
      a: ['batch_size 32', 'optimizer Adam'],
      b: ['batch_size 64', 'optimizer Adam'],
      c: ['batch_size 64', 'optimizer SGD'],
      d: ['2 workers']
    });
  });

  it('include the jobs of runs, and leave out values that are too long', () => {
    const found = differences([
      run('a', 'train.py', { arguments: '--learning-rate 0.001 --depth 8' }, { worker: 4 }),
      run('b', 'train.py 2', { arguments: '--depth 9' }),
      run('c', 'train.py 3', {})
    ]);
    expect(Object.fromEntries(found)).toEqual({
      a: ['4 workers'],
      b: ['arguments --depth 9', '2 workers'],
      c: ['2 workers']
    });
  });

  it('treat a number at the end of a name as the number of the run', () => {
    expect(['mlp', 'mlp 3', 'mlp_3', 'mlp 03', 'resnet 50 2'].map(baseName)).toEqual([
      'mlp',
      'mlp',
      'mlp_3',
      'mlp 03',
      'resnet 50'
    ]);
  });
});
