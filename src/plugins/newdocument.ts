import type { JupyterFrontEnd } from '@jupyterlab/application';
import { PathExt } from '@jupyterlab/coreutils';

/** Write a new file into a folder, and open it. `stem`: how its name begins; empty for one that is unused. */
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
    // Where a file has that name, this one keeps the name it was given.
    path = (await contents.rename(path, wanted).catch(() => made)).path;
  }
  await contents.save(path, { type: 'file', format: 'text', content: text });
  await app.commands.execute('docmanager:open', { path, factory });
}
