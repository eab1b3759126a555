/** Reads the text of a `.dtf` file, with the positions of errors, and writes it exactly as Python does. Pure. */

import { findNodeAtLocation, parseTree, ParseError, printParseErrorCode } from 'jsonc-parser';

import {
  Calibration,
  ClusterDesign,
  DEFAULTS,
  Design,
  Device,
  Edge,
  HostDesign,
  Input,
  Layer,
  LayerGraph,
  Link,
  ModelDesign,
  ModelSource,
  Placement,
  Refusal,
  RunSettings,
  TaskPlace
} from '../api/schema';
import { writeJson } from './jsontext';
import {
  anything,
  array,
  flag,
  JsonPath,
  nullable,
  number,
  ReadError,
  record,
  struct,
  text,
  whole
} from './jsonreaders';

/** The version of the format that is read and written here. */
export const VERSION = DEFAULTS.Design.version;

/** Why a string is not a valid design. Line and column count from 1. */
export class DesignError extends Error {
  constructor(
    message: string,
    readonly line: number,
    readonly column: number
  ) {
    super(message);
    this.name = 'DesignError';
  }
}

/** The text is a design of an older version, which the server can convert. */
export class OlderDesign extends DesignError {}

/** A design with two workers and nothing else. */
export function emptyDesign(): Design {
  return structuredClone<Design>(DEFAULTS.Design);
}

const host = struct<HostDesign>(
  { name: text, cpus: whole, memory_bytes: whole, gpus: array(whole) },
  DEFAULTS.HostDesign
);

const task = struct<TaskPlace>(
  { job: text, index: whole, host: text, device: text, memory_bytes: whole },
  DEFAULTS.TaskPlace
);

const cluster = struct<ClusterDesign>(
  {
    name: text,
    kind: text,
    jobs: record(whole),
    options: record(anything),
    hosts: array(host),
    tasks: array(task)
  },
  DEFAULTS.ClusterDesign
);

const layer = struct<Layer>(
  {
    id: text,
    kind: text,
    calls: whole,
    input_shapes: array(array(whole)),
    output_shapes: array(array(whole)),
    parameters: whole,
    parameter_bytes: whole,
    gradient_bytes: whole,
    slot_bytes: whole,
    activation_bytes: whole,
    flops: whole
  },
  DEFAULTS.Layer
);

const graph = struct<LayerGraph>(
  {
    model: text,
    layers: array(layer),
    edges: array(struct<Edge>({ source: text, target: text, bytes: whole })),
    inputs: array(
      struct<Input>({ name: text, shape: array(whole), dtype: text, targets: array(text) }, DEFAULTS.Input)
    ),
    notes: array(text),
    refusals: array(struct<Refusal>({ field: text, message: text })),
    takes_turns: flag
  },
  DEFAULTS.LayerGraph
);

const model = struct<ModelDesign>(
  {
    graph,
    source: struct<ModelSource>({ kind: text, path: text, variable: text }, DEFAULTS.ModelSource)
  },
  DEFAULTS.ModelDesign
);

const placement = struct<Placement>(
  { devices: record(text), splits: record(array(text)), pinned: array(text) },
  DEFAULTS.Placement
);

const run = struct<RunSettings>(
  { batch_size: whole, microbatches: whole, replicas: whole, epochs: whole },
  DEFAULTS.RunSettings
);

const calibration = struct<Calibration>(
  {
    batch_size: whole,
    devices: array(struct<Device>({ name: text, flops_per_s: number, memory_bytes: whole }, DEFAULTS.Device)),
    link: struct<Link>({ bytes_per_s: number, latency_s: number }, DEFAULTS.Link),
    layer_seconds: record(array(number)),
    overhead_s: number
  },
  DEFAULTS.Calibration
);

const design = struct<Design>(
  {
    version: whole,
    cluster,
    model: nullable(model),
    placement,
    run,
    calibration: nullable(calibration),
    drawing: record(anything)
  },
  DEFAULTS.Design
);

/**
 * Parse a design, with defaults for everything that the text omits. `before`: a design that was read or written
 * earlier; if the text has the same graph, the graph object is reused. Throws DesignError, or OlderDesign for an older
 * version.
 */
export function readDesign(source: string, before?: Readonly<Design>): Design {
  return (before?.model && readAround(source, before.model.graph)) ?? readAll(source);
}

function readAll(source: string): Design {
  let plain: unknown;
  try {
    plain = JSON.parse(source);
  } catch {
    throw syntaxError(source);
  }
  const version = versionOf(plain);
  if (version > VERSION) {
    const message = `This design has version ${version}, which was written by a newer version of jupyter_dtf. This one reads up to ${VERSION}`;
    throw new DesignError(message, ...placeOf(source, offsetOf(source, ['version'])));
  }
  if (version < VERSION) {
    throw new OlderDesign(`This design is of version ${version}, older than ${VERSION}`, 1, 1);
  }
  try {
    return design(plain, []);
  } catch (error) {
    if (error instanceof ReadError) {
      throw new DesignError(error.message, ...placeOf(source, offsetOf(source, error.path)));
    }
    throw error;
  }
}

/**
 * Parse a design whose text contains this graph, without parsing the graph: it makes up most of a large design and
 * seldom changes. Null if the text does not contain it or is invalid.
 */
function readAround(source: string, graph: LayerGraph): Design | null {
  const known = `"graph": ${textOfGraph(graph)}`;
  const start = source.indexOf(known);
  if (start < 0) {
    return null;
  }
  try {
    const plain = JSON.parse(`${source.slice(0, start)}"graph": null${source.slice(start + known.length)}`) as {
      model?: { graph?: unknown };
    };
    if (plain.model?.graph !== null || versionOf(plain) !== VERSION) {
      return null;
    }
    plain.model.graph = NO_GRAPH;
    const found = design(plain, []);
    found.model!.graph = graph;
    return found;
  } catch {
    return null; // parsing the whole text finds the position
  }
}

const NO_GRAPH: LayerGraph = {
  model: '',
  layers: [],
  edges: [],
  inputs: [],
  notes: [],
  refusals: [],
  takes_turns: false
};
const graphTexts = new WeakMap<LayerGraph, string>();

/** A graph's text, indented as in a design. */
function textOfGraph(graph: LayerGraph): string {
  const known = graphTexts.get(graph) ?? writeJson(graph).trimEnd().replaceAll('\n', '\n    ');
  graphTexts.set(graph, known);
  return known;
}

/** The version of a JSON value. One without a version is version 0, a request for a cluster, if it looks like one. */
function versionOf(plain: unknown): number {
  const { version, kind, jobs } = (plain ?? {}) as Record<string, unknown>;
  if (version === undefined && (kind !== undefined || jobs !== undefined)) {
    return 0;
  }
  return Number.isInteger(version) ? (version as number) : VERSION;
}

/** A design as text, byte for byte as Python writes it. */
export function writeDesign(value: Readonly<Design>): string {
  const graph = value.model?.graph;
  return writeJson(value, new Map(graph ? [[graph, textOfGraph(graph)]] : []));
}

/** A copy that may be changed, except that it shares the model's graph: replace the graph instead of modifying it. */
export function draftOf(value: Readonly<Design>): Design {
  const draft = structuredClone({ ...value, model: null }) as Design;
  draft.model = value.model && { ...value.model, source: { ...value.model.source } };
  return draft;
}

/** A range of a string and its replacement. */
export interface Change {
  start: number;
  end: number;
  text: string;
}

/** Number of characters compared at a time. */
const STRIDE = 1024;

/** The smallest range of `before` whose replacement yields `after`; null if they are equal. */
export function change(before: string, after: string): Change | null {
  if (before === after) {
    return null;
  }
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before.startsWith(after.slice(start, start + STRIDE), start)) {
    start += STRIDE;
  }
  start = Math.min(start, most);
  while (start < most && before[start] === after[start]) {
    start++;
  }
  if (isHighSurrogate(before, start - 1)) {
    start--; // replace a surrogate pair as a whole
  }
  let kept = 0;
  const stride = () => after.slice(Math.max(start, after.length - kept - STRIDE), after.length - kept);
  while (kept + STRIDE <= most - start && before.endsWith(stride(), before.length - kept)) {
    kept += STRIDE;
  }
  while (kept < most - start && before[before.length - 1 - kept] === after[after.length - 1 - kept]) {
    kept++;
  }
  if (kept > 0 && isHighSurrogate(before, before.length - kept - 1)) {
    kept--;
  }
  return { start, end: before.length - kept, text: after.slice(start, after.length - kept) };
}

function isHighSurrogate(value: string, index: number): boolean {
  const unit = value.charCodeAt(index);
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** Why a string is not valid JSON, and where. */
export function syntaxError(source: string): DesignError {
  const errors: ParseError[] = [];
  parseTree(source, errors, { disallowComments: true });
  const first = errors[0];
  const words = first
    ? printParseErrorCode(first.error).replace(/(?!^)[A-Z]/g, capital => ` ${capital.toLowerCase()}`)
    : '';
  const message = words === '' ? 'This is not JSON' : `This is not JSON: ${words}`;
  return new DesignError(message, ...placeOf(source, first?.offset ?? 0));
}

/** The offset of a value in the text, or of its parent if it is missing. */
export function offsetOf(source: string, path: JsonPath): number {
  const root = parseTree(source);
  for (let length = path.length; root && length > 0; length--) {
    const node = findNodeAtLocation(root, path.slice(0, length));
    if (node) {
      return node.offset;
    }
  }
  return root?.offset ?? 0;
}

/** Line and column, from 1. */
export function placeOf(source: string, offset: number): [number, number] {
  const before = source.slice(0, offset);
  return [before.split('\n').length, offset - before.lastIndexOf('\n')];
}
