import type { TranslationBundle } from '@jupyterlab/translation';

import type { ClusterState, RunState, TaskState } from '../api/schema';

/** A state in the reader's language. */
export function stateText(state: ClusterState | RunState | TaskState, trans: TranslationBundle): string {
  switch (state) {
    case 'starting':
      return trans.__('starting');
    case 'running':
      return trans.__('running');
    case 'serving':
      return trans.__('serving');
    case 'finished':
      return trans.__('finished, serving the others');
    case 'stopping':
      return trans.__('stopping');
    case 'stopped':
      return trans.__('stopped');
    case 'failed':
      return trans.__('failed');
    case 'lost':
      return trans.__('lost');
    case 'pending':
      return trans.__('waiting');
    case 'launching':
      return trans.__('launching');
    case 'succeeded':
      return trans.__('succeeded');
  }
}
