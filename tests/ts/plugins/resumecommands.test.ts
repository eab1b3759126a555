import { nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';
import { describe, expect, it, vi } from 'vitest';

import type { RunInfo } from '../../../src/api/schema';
import { addGoingOnCommands, openResumeMenu } from '../../../src/plugins/resumecommands';
import { CommandIDs, type IDtf } from '../../../src/tokens';
import { checkpointInfo, clusterInfo, runInfo } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');
const LOST = runInfo('r', { state: 'lost', goes_on: true, checkpoint: checkpointInfo(14), jobs: { worker: 3 } });

/** Adds the commands to a page with these runs, and with clusters of which one is lost. */
function page(...runs: RunInfo[]) {
  const resume = vi.fn((id: string, cluster: string) => Promise.resolve(runInfo(`${id}-again`, { cluster })));
  const start = vi.fn(() => Promise.resolve(clusterInfo('fresh', { state: 'starting' })));
  const known = {
    get: (id: string) => runs.find(run => run.id === id),
    resume,
    pause: vi.fn(() => Promise.resolve())
  };
  const clusters = [
    clusterInfo('lab'),
    clusterInfo('gone', { state: 'lost' }),
    clusterInfo('soon', { state: 'starting' })
  ];
  const dtf = { runs: known, clusters: { clusters, start }, server: { health: 'ok' } } as unknown as IDtf;
  const commands = new CommandRegistry();
  const open = vi.fn();
  commands.addCommand(CommandIDs.openRun, { execute: args => void open(args['run']) });
  addGoingOnCommands(commands, dtf, trans, given => Promise.resolve(given as string));
  return { commands, dtf, known, resume, start, open };
}

describe('resuming', () => {
  it('resumes a run on the chosen cluster, and opens the new run', async () => {
    const { commands, resume, start, open } = page(LOST);
    await commands.execute(CommandIDs.resumeRun, { run: 'r', cluster: 'lab' });
    expect(resume).toHaveBeenCalledWith('r', 'lab');
    expect(start).not.toHaveBeenCalled();
    expect(open).toHaveBeenCalledWith('r-again');
  });

  it('starts a cluster with as many tasks if a new one is chosen', async () => {
    const { commands, resume, start } = page(LOST);
    await commands.execute(CommandIDs.resumeRun, { run: 'r', cluster: '+' });
    expect(start).toHaveBeenCalledWith({ kind: 'local', jobs: { worker: 3 } });
    expect(resume).toHaveBeenCalledWith('r', 'fresh');
  });

  it('offers the clusters that are not lost', () => {
    const { commands, dtf } = page(LOST);
    openResumeMenu(commands, dtf, 'r', document.body);
    const labels = [...document.querySelectorAll('.lm-Menu-itemLabel')].map(label => label.textContent);
    expect(labels.filter(label => label !== '')).toEqual(['lab', 'soon', 'A new local cluster']);
  });

  it('is enabled depending on the state of the run', () => {
    const { commands } = page(LOST, runInfo('p', { goes_on: true }), runInfo('x', { state: 'paused' }));
    const enabled = (run: string) =>
      [CommandIDs.pauseRun, CommandIDs.continueRun, CommandIDs.resumeRun].map(id => commands.isEnabled(id, { run }));
    expect(enabled('r')).toEqual([false, false, true]);
    expect(enabled('p')).toEqual([true, false, false]);
    expect(enabled('x')).toEqual([false, true, false]);
  });

  it('pauses a run', async () => {
    const { commands, known } = page(runInfo('p', { goes_on: true }));
    await commands.execute(CommandIDs.pauseRun, { run: 'p' });
    expect(known.pause).toHaveBeenCalledWith('p');
  });
});
