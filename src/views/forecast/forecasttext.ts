import type { TranslationBundle } from '@jupyterlab/translation';

import type { Part } from '../../model/forecasttable';

/** The name of a strategy. */
export function wayName(id: string, trans: TranslationBundle): string {
  const names: Record<string, string> = {
    allreduce: trans.__('all-reduce'),
    ring: trans.__('all-reduce, ring'),
    hierarchical: trans.__('all-reduce, hierarchical'),
    tree: trans.__('all-reduce, tree'),
    ps: trans.__('parameter server, synchronous'),
    'ps-async': trans.__('parameter server, asynchronous'),
    pipeline: trans.__('pipeline')
  };
  return names[id] ?? id;
}

export function partName(part: Part, trans: TranslationBundle): string {
  const names: Record<Part, string> = {
    input_s: trans._p('part of a step', 'input'),
    compute_s: trans._p('part of a step', 'compute'),
    hidden_s: trans.__('exchange, hidden'),
    exposed_s: trans.__('exchange, exposed'),
    update_s: trans._p('part of a step', 'update'),
    idle_s: trans._p('part of a step', 'idle')
  };
  return names[part];
}

/** The source of a forecast's compute times. */
export function sourceText(source: string, trans: TranslationBundle): string {
  const texts: Record<string, string> = {
    calibration: trans.__('Computation times as profiled on the cluster.'),
    run: trans.__('Computation times as measured in the run.'),
    published: trans.__('Computation times from published figures, not measured.'),
    assumed: trans.__('Computation times are assumed: choose a device, or profile the model for measured times.')
  };
  return texts[source] ?? source;
}
