import { act, fireEvent, render, screen } from '@testing-library/react';
import { nullTranslator } from '@jupyterlab/translation';
import React from 'react';
import { beforeEach, describe, expect, it, vi } from 'vitest';

import { EventSocket } from '../../../src/api/socket';
import { PlotChoices } from '../../../src/model/plotchoices';
import { DEFAULT_PREFERENCES } from '../../../src/model/preferences';
import { RunModel } from '../../../src/model/run';
import { Metrics } from '../../../src/views/metrics';
import { fakeSettings, runInfo } from '../fixtures';

vi.mock('../../../src/views/plots', () => ({ Plots: () => <div /> }));

const trans = nullTranslator.load('');

describe('Metrics', () => {
  let model: RunModel;
  const view = (change = {}) => (
    <Metrics
      model={model}
      preferences={{ ...DEFAULT_PREFERENCES, ...change }}
      choices={new PlotChoices()}
      themeChanged={null}
      trans={trans}
    />
  );

  beforeEach(() => {
    const ended = runInfo('r', { state: 'succeeded', latest: { cpu: 1 } });
    model = new RunModel(ended, new EventSocket(fakeSettings().settings));
  });

  it('shows that nothing was reported only until it receives a metric', () => {
    render(view());
    expect(screen.getByText(/This run reported no metric/)).toBeTruthy();
    const frames = [{ metric: 'loss', task: 'worker:0', start: 0, x: [1], y: [1], replaced: '' }];
    act(() => model.applySeries({ type: 'series', run: 'r', frames }));
    expect(screen.queryByText(/This run reported no metric/)).toBeNull();
  });

  it('applies preferences that are read after it is shown, but keeps what the user has chosen', () => {
    const { rerender } = render(view());
    fireEvent.click(screen.getByLabelText('log'));
    act(() => model.preferX('time'));
    rerender(view({ smoothing: 0.6, logScale: false, tasks: 'mean' }));
    expect(screen.getByText('0.60')).toBeTruthy();
    expect(screen.getByLabelText<HTMLSelectElement>('tasks').value).toBe('mean');
    expect(screen.getByLabelText<HTMLSelectElement>('x').value).toBe('time');
    expect(screen.getByLabelText<HTMLInputElement>('log').checked).toBe(true);
  });
});
