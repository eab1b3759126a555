import { expect, it } from 'vitest';

import type { OutputLine } from '../../../src/model/output';
import { cutAt, filtered, levelsOf } from '../../../src/model/outputfilter';

const lines = (texts: string[], task = 'worker:0'): OutputLine[] =>
  texts.map((text, number) => ({ number, task, stream: 'stderr', time: 0, text }));

it('detects the levels of loggers, TensorFlow and warnings', () => {
  const said = [
    'epoch 3 of 10, error 0.3',
    'WARNING:tensorflow:beware',
    'E0000 00:00:1700 cuda_dnn.cc:8310] no',
    'W0000 00:00:1700 cpu.cc:1] slow',
    'a.py:3: UserWarning: hm',
    '2026-01-01 ERROR main: broken',
    'ValueError: no'
  ];
  expect(levelsOf(lines(said))).toEqual(['info', 'warning', 'error', 'warning', 'warning', 'error', 'error']);
});

it('treats a traceback as one message, even if other tasks print lines in between', () => {
  const [start, middle, end, after] = lines([
    'Traceback (most recent call last):',
    '  File "a.py", line 1, in f',
    'my.package.Broken: no',
    'going on'
  ]) as [OutputLine, OutputLine, OutputLine, OutputLine];
  const [other] = lines(['step 3'], 'worker:1') as [OutputLine];
  expect(levelsOf([start, other, middle, end, after])).toEqual(['error', 'info', 'error', 'error', 'info']);
});

it('finds text, keeps gaps, and returns the same array without a filter', () => {
  const all = [...lines(['Loss 1', 'accuracy 2']), { ...lines([''])[0]!, missing: 7 }];
  expect(filtered(all, { level: 'info', find: '' })).toBe(all);
  expect(filtered(all, { level: 'info', find: 'loss' }).map(line => line.missing ?? line.text)).toEqual(['Loss 1', 7]);
  expect(filtered(all, { level: 'error', find: '' })).toHaveLength(1);
});

it('splits a text at the matches', () => {
  expect(cutAt('a Loss, a loss', 'loss')).toEqual(['a ', 'Loss', ', a ', 'loss', '']);
  expect(cutAt('nothing', 'loss')).toEqual(['nothing']);
  expect(cutAt('İ loss', 'loss')).toEqual(['İ loss']);
});
