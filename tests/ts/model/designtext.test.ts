import { readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { change, DesignError, draftOf, emptyDesign, readDesign, writeDesign } from '../../../src/model/designtext';

function errorOf(source: string): DesignError {
  try {
    readDesign(source);
  } catch (error) {
    expect(error).toBeInstanceOf(DesignError);
    return error as DesignError;
  }
  throw new Error('it was read');
}

describe('readDesign', () => {
  it('fills in defaults, which designs do not share', () => {
    const first = readDesign('{"version": 1, "cluster": {"jobs": {"ps": 1, "worker": 3}}}');
    expect(first.cluster).toEqual({
      name: '',
      kind: 'local',
      jobs: { ps: 1, worker: 3 },
      options: {},
      hosts: [],
      tasks: []
    });
    expect(first.run.microbatches).toBe(8);
    first.cluster.hosts.push({ name: 'a', cpus: 1, memory_bytes: 0, gpus: [] });
    expect(emptyDesign().cluster.hosts).toEqual([]);
  });

  it('names the position of invalid JSON', () => {
    const error = errorOf('{\n  "version": 1,\n  "cluster": {"jobs" 3}\n}\n');
    expect([error.line, error.column]).toEqual([3, 22]);
    expect(error.message).toMatch(/^This is not JSON: /);
    expect(errorOf('[1, 2').line).toBe(1);
  });

  it.each([
    [
      '{\n  "cluster": {\n    "jobs": {"worker": "two"}\n  }\n}',
      3,
      24,
      /`cluster\.jobs\.worker` must be a whole number, got "two"/
    ],
    ['{"run": {"batch": 3}}', 1, 19, /There is no key "batch" here\. Known: batch_size/],
    ['{"cluster": {"tasks": [{"job": "worker", "index": 0}]}}', 1, 24, /The key "host" is missing/],
    ['{"cluster": {"hosts": [{"name": "a", "constructor": 1}]}}', 1, 53, /no key "constructor"/],
    ['[]', 1, 1, /The file must be an object, got \[\]/]
  ])('names the rule, the value and the position: %s', (source, line, column, message) => {
    const error = errorOf(source);
    expect(error.message).toMatch(message);
    expect([error.line, error.column]).toEqual([line, column]);
  });

  it('rejects newer versions', () => {
    expect(errorOf('{\n  "version": 99\n}').message).toMatch(/version 99, .*newer/);
    expect(errorOf('{\n  "version": 99\n}').line).toBe(2);
  });
});

it('reads a graph of an older version, without inputs', () => {
  const plain = JSON.parse(readFileSync('tests/designs/design.dtf', 'utf-8')) as { model: { graph: object } };
  Reflect.deleteProperty(plain.model.graph, 'inputs');
  expect(readDesign(JSON.stringify(plain)).model?.graph.inputs).toEqual([]);
});

describe('readDesign with the previous design', () => {
  const text = readFileSync('tests/designs/design.dtf', 'utf-8');
  const before = readDesign(text);

  it('reuses its graph if the text has the same one, and reads the rest', () => {
    const after = readDesign(text.replace('"batch_size": 128', '"batch_size": 256'), before);
    expect(after.run.batch_size).toBe(256);
    expect(after.model?.graph).toBe(before.model?.graph);
    expect(after).toEqual({ ...before, run: { ...before.run, batch_size: 256 } });
  });

  it('reads a graph that differs', () => {
    const after = readDesign(text.replace('"flops": 2570', '"flops": 1'), before);
    expect(after.model?.graph.layers[1]?.flops).toBe(1);
  });

  it('does not confuse a graph in another field with it', () => {
    const graph = JSON.parse(text) as { model: { graph: object } };
    const other = { ...emptyDesign(), drawing: { graph: graph.model.graph } };
    expect(readDesign(writeDesign(other), before)).toEqual(other);
  });

  it('reports the position of an error', () => {
    const broken = text.replace('"epochs": 3', '"epochs": "three"');
    let error: unknown;
    try {
      readDesign(broken, before);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(DesignError);
    expect(broken.split('\n')[(error as DesignError).line - 1]).toContain('"three"');
  });

  it('reads a design that was written with another graph', () => {
    const draft = draftOf(before);
    draft.model!.source.variable = 'other';
    draft.model!.graph = {
      model: 'new',
      layers: [],
      edges: [],
      inputs: [],
      notes: [],
      refusals: [],
      takes_turns: false
    };
    expect(before.model?.source.variable).toBe('model');
    expect(readDesign(writeDesign(draft), before)).toEqual(draft);
  });
});

describe('writeDesign', () => {
  it('writes text that is read as the same design', () => {
    const design = emptyDesign();
    design.placement.devices['encoder/dense'] = '/job:worker/task:1/device:CPU:0';
    design.cluster.tasks.push({ job: 'worker', index: 1, host: 'ü "a"', device: 'GPU:0', memory_bytes: 2 ** 33 });
    expect(readDesign(writeDesign(design))).toEqual(design);
  });

  it('reproduces a text written by Python, byte for byte', () => {
    const text = readFileSync('tests/designs/design.dtf', 'utf-8');
    expect(writeDesign(readDesign(text))).toBe(text);
  });
});

describe('change', () => {
  it.each([0, 1, 1023, 1024, 1025, 2047, 2048, 2049, 4000])('is found at %i of a long text', at => {
    const before = 'ab'.repeat(2001);
    const after = `${before.slice(0, at)}X${before.slice(at + 1)}`;
    expect(change(before, after)).toEqual({ start: at, end: at + 1, text: 'X' });
    const longer = `${before.slice(0, at)}XYZ${before.slice(at)}`;
    expect(change(before, longer)).toEqual({ start: at, end: at, text: 'XYZ' });
    expect(change(longer, before)).toEqual({ start: at, end: at + 3, text: '' });
  });

  it.each([
    ['same', 'same', null],
    ['abcd', 'abXd', { start: 2, end: 3, text: 'X' }],
    ['aaa', 'aaaa', { start: 3, end: 3, text: 'a' }],
    ['aaaa', 'aa', { start: 2, end: 4, text: '' }],
    ['', 'new', { start: 0, end: 0, text: 'new' }],
    ['x😀y', 'x😁y', { start: 1, end: 3, text: '😁' }], // the same high surrogate
    ['x\u{1f600}y', 'x\u{1fa00}y', { start: 1, end: 3, text: '\u{1fa00}' }] // the same low surrogate
  ])('from %j to %j', (before, after, expected) => {
    const found = change(before, after);
    expect(found).toEqual(expected);
    if (found) {
      expect(before.slice(0, found.start) + found.text + before.slice(found.end)).toBe(after);
    }
  });
});
