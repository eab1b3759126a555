import type { JupyterFrontEnd } from '@jupyterlab/application';
import { PathExt } from '@jupyterlab/coreutils';

/** Create a file in a folder and open it. `stem`: the beginning of its name; if empty, an unused one is chosen. */
export async function openNewDocument(
  app: JupyterFrontEnd,
  file: { text: string; folder: string; stem: string; suffix: string; factory: string }
): Promise<void> {
  const { text, folder, stem, suffix, factory } = file;
  const { contents } = app.serviceManager;
  const made = await contents.newUntitled({ path: folder, type: 'file', ext: suffix });
  let { path } = made;
  if (stem !== '') {
    const wanted = PathExt.join(folder, `${stem}${suffix}`);
    // If a file of that name exists, this one keeps its generated name.
    path = (await contents.rename(path, wanted).catch(() => made)).path;
  }
  await contents.save(path, { type: 'file', format: 'text', content: text });
  await app.commands.execute('docmanager:open', { path, factory });
}
