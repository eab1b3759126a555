import { expect, Locator, Page, test } from '@playwright/test';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const PICTURES = path.join(__dirname, '../../artifacts/screenshots');

/**
 * Open JupyterLab, with a file of the server's directory if one is named, and wait until it is ready to be used.
 *
 * Each story has a workspace of its own: what another left open is not restored there.
 */
export async function openLab(page: Page, file = ''): Promise<void> {
  const workspace = `/lab/workspaces/${path.basename(test.info().file, '.spec.ts')}`;
  await page.goto(`${workspace}${file && `/tree/${file}`}?token=test`);
  await page.locator('#jupyterlab-splash').waitFor({ state: 'detached', timeout: 120_000 });
  await page.locator('#main').waitFor();
}

/** The side panel, opened if it is not. */
export async function openPanel(page: Page): Promise<Locator> {
  const panel = page.locator('.jp-dtf-panel');
  if (!(await panel.isVisible())) {
    await page.getByRole('tab', { name: 'Distributed TensorFlow' }).click();
  }
  await expect(panel).toBeVisible();
  return panel;
}

/** Write a notebook with these code cells into the server's directory. */
export function writeNotebook(name: string, cells: string[]): void {
  const notebook = {
    cells: cells.map((source, index) => ({
      id: `cell-${index}`,
      cell_type: 'code',
      execution_count: null,
      metadata: {},
      outputs: [],
      source
    })),
    metadata: { kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' } },
    nbformat: 4,
    nbformat_minor: 5
  };
  const root = path.join(process.env.DTF_UI_DIRECTORY ?? '', 'root');
  writeFileSync(path.join(root, name), JSON.stringify(notebook));
}

/** Open a notebook and run all its cells; does not wait for their ends. */
export async function runNotebook(page: Page, name: string): Promise<Locator> {
  await openLab(page, name);
  const notebook = page.locator('.jp-NotebookPanel:visible');
  // Until then the session is not connected, and JupyterLab would ask which kernel is meant.
  await expect(
    page.locator('#jp-bottom-panel, #jp-main-statusbar').getByText('Python 3 (ipykernel) | Idle')
  ).toBeVisible();
  await execute(page, 'notebook:run-all-cells');
  return notebook;
}

/** Keep a picture of the page to be looked at. */
export async function picture(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: path.join(PICTURES, `${name}.png`) });
}

/** Begin a command of JupyterLab's; does not wait for its end. */
async function execute(page: Page, command: string, args: Record<string, string> = {}): Promise<void> {
  await page.evaluate(
    ([id, options]) => {
      const { jupyterapp } = window as unknown as {
        jupyterapp: { commands: { execute(id: string, args: object): Promise<void> } };
      };
      void jupyterapp.commands.execute(id, options);
    },
    [command, args] as const
  );
}

/** Switch between light and dark. */
export async function setTheme(page: Page, dark: boolean): Promise<void> {
  await execute(page, 'apputils:change-theme', { theme: dark ? 'JupyterLab Dark' : 'JupyterLab Light' });
  await expect(page.locator('body')).toHaveAttribute('data-jp-theme-light', dark ? 'false' : 'true');
}

/** The command lines of processes that clusters of these tests have left, by what their environment says. */
export function clusterProcesses(): string[] {
  const found = [];
  for (const pid of readdirSync('/proc').filter(name => /^\d+$/.test(name))) {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      const environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
      const ours = environment.includes(`JUPYTER_DTF_DATA_DIR=${process.env.DTF_UI_DIRECTORY}`);
      if (ours && /jupyter_dtf\.backend|multiprocessing/.test(command)) {
        found.push(`${pid} ${command}`);
      }
    } catch {
      continue; // it has just ended
    }
  }
  return found;
}
