import React from 'react';

import type { Submitted } from '../../api/schema';
import type { RunModel } from '../../model/run';
import { useSignals } from '../hooks';

/** The code and design submitted with each of these runs; undefined for runs for which they have not been received. */
export function useSubmitted(models: readonly RunModel[]): (Submitted | null | undefined)[] {
  useSignals(...models.map(model => model.submittedChanged));
  React.useEffect(() => {
    models.forEach(model => model.acquire());
    return () => models.forEach(model => model.release());
  }, [models]);
  return models.map(model => model.submitted);
}
