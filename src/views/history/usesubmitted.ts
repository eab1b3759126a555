import React from 'react';

import type { Submitted } from '../../api/schema';
import type { RunModel } from '../../model/run';
import { useSignals } from '../hooks';

/** What each of these runs was submitted with; undefined for those whose submission has not been received. */
export function useSubmitted(models: readonly RunModel[]): (Submitted | null | undefined)[] {
  useSignals(...models.map(model => model.submittedChanged));
  React.useEffect(() => {
    models.forEach(model => model.acquire());
    return () => models.forEach(model => model.release());
  }, [models]);
  return models.map(model => model.submitted);
}
