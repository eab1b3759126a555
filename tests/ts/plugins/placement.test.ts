import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Clipboard, Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { describe, expect, it, vi } from 'vitest';

import { DEFAULTS } from '../../../src/api/schema';
import { placementServices } from '../../../src/plugins/placement';
import type { IDtf } from '../../../src/tokens';
import type { OpenDesign } from '../../../src/widgets/designeroptions';
import { clusterInfo } from '../fixtures';

const trans = nullTranslator.load('jupyter_dtf');

/** Inserts the code of a document while no notebook is open. Returns the result and the copied code. */
async function insert(change: { readOnly?: boolean; dirty?: boolean; save?: () => Promise<void>; running?: boolean }) {
  const copied = vi.spyOn(Clipboard, 'copyToSystem').mockReset().mockReturnValue();
  const save = vi.fn(change.save ?? (() => Promise.resolve()));
  const document = {
    clusterName: 'digits',
    context: { path: 'digits.dtf', localPath: 'digits.dtf', model: { dirty: change.dirty ?? true }, save },
    design: { design: DEFAULTS.Design, readOnly: change.readOnly ?? false }
  } as unknown as OpenDesign;
  const clusters = { get: () => (change.running ? clusterInfo('digits') : undefined) };
  const app = { serviceManager: {} } as unknown as JupyterFrontEnd;
  const services = placementServices(app, { clusters, runs: {} } as unknown as IDtf, null, document, trans);
  const where = await services.insertCode();
  return { where, saves: save.mock.calls.length, code: copied.mock.calls[0]?.[0] ?? null };
}

describe('insertCode', () => {
  it('saves the design before the code refers to its file', async () => {
    const done = await insert({});
    expect([done.where, done.saves]).toEqual(['clipboard', 1]);
    expect(done.code).toContain('cluster = dtf.Cluster(design="digits.dtf", name="digits")');
    expect((await insert({ running: true })).code).toContain('cluster = dtf.connect("digits")');
  });

  it('gives no code that would not train the drawn design', async () => {
    const failed = await insert({ save: () => Promise.reject(new Error('disk full')) });
    expect([failed.where, failed.code]).toEqual([null, null]);
    const said = vi.spyOn(Notification, 'error').mockReturnValue('');
    const refused = await insert({ readOnly: true });
    expect([refused.where, refused.saves, refused.code]).toEqual([null, 0, null]);
    expect(said).toHaveBeenCalledWith('The code trains the saved design, but its file is not writable: digits.dtf');
    expect((await insert({ readOnly: true, dirty: false })).where).toBe('clipboard');
  });
});
