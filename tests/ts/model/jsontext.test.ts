import { readFileSync } from 'node:fs';

import { expect, it } from 'vitest';

import { writeJson } from '../../../src/model/jsontext';

it('writes the same as Python, byte for byte', () => {
  const text = readFileSync('tests/designs/forms.dtf', 'utf-8');
  expect(writeJson(JSON.parse(text))).toBe(text);
});

it('omits undefined values', () => {
  expect(writeJson({ a: undefined, b: { c: undefined }, d: [{ e: undefined }] })).toBe(
    '{\n  "b": {},\n  "d": [\n    {}\n  ]\n}\n'
  );
});
