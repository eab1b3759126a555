import { expect, Locator, Page, test } from '@playwright/test';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const PICTURES = path.join(__dirname, '../../artifacts/screenshots');

/**
 * Open JupyterLab, with a file of the server's directory if one is named, and wait until it is ready to be used.
 *
 * Each story has a workspace of its own, and so has each further browser in it: what another left open is not restored
 * there.
 */
export async function openLab(
  page: Page,
  file = '',
  workspaceName = path.basename(test.info().file, '.spec.ts')
): Promise<void> {
  const workspace = `/lab/workspaces/${workspaceName}`;
  await page.goto(`${workspace}${file && `/tree/${file}`}?token=test`);
  await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
  await page.locator('#main').waitFor();
}

/** The side panel, opened if it is not, by the title that it has in the page's language. */
export async function openPanel(page: Page, title = 'Distributed TensorFlow'): Promise<Locator> {
  const panel = page.locator('.jp-dtf-panel');
  // A page that is restoring itself may open the panel between the look and the click, which then closes it.
  await expect(async () => {
    if (!(await panel.isVisible())) {
      await page.getByRole('tab', { name: title }).click();
    }
    await expect(panel).toBeVisible({ timeout: 2_000 });
  }).toPass();
  return panel;
}

/** Write a notebook with these code cells into the server's directory, with what they have put out, by its type. */
export function writeNotebook(name: string, cells: string[], outputs: Record<string, unknown>[] = []): void {
  const notebook = {
    cells: cells.map((source, index) => ({
      id: `cell-${index}`,
      cell_type: 'code',
      execution_count: null,
      metadata: {},
      outputs: outputs[index] ? [{ output_type: 'display_data', metadata: {}, data: outputs[index] }] : [],
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

/** A run that ended some time ago. */
export interface PastRun {
  id: string;
  metrics: string[];
  tasks: number;
  /** How often each task reported each metric. */
  points: number;
  notes?: number;
  /** Seconds since it was created. */
  age?: number;
  name?: string;
  state?: 'succeeded' | 'failed' | 'stopped' | 'lost';
  message?: string;
  traceback?: string;
  strategy?: string;
  parameters?: Record<string, unknown>;
  /** So many steps are an epoch, at whose end metrics of epochs and of the validation are reported. */
  epoch?: number;
  /** Where a metric begins to be NaN, first on one task. */
  nan?: { metric: string; step: number; task: string };
  /** Where a task died, and the step from which the next attempt went on. */
  lost?: { step: number; from: number; task: string };
  /** After so many steps there was a checkpoint, each time. */
  checkpoint?: number;
  /** Where a task held the others up. */
  slow?: { step: number; until: number; task: string };
  /** Which trial of which search it is, if it is one. */
  trial?: Record<string, unknown>;
  /** What it was submitted with: the text of a cell, and that of a `.dtf` file. */
  code?: string;
  design?: string;
  /** What else it was made of: fields of `Origin`. */
  origin?: Record<string, unknown>;
  /** Its tasks reported histograms and pictures, and printed in colours. */
  shows?: boolean;
}

/** Write runs into the server's store. A page that is open learns of them when its socket is opened again. */
export function writePastRuns(runs: PastRun[]): void {
  const whole = runs.map(run => ({ notes: 0, age: 3600, ...run }));
  execFileSync('python', [path.join(__dirname, 'past_runs.py')], {
    input: JSON.stringify(whole),
    env: { ...process.env, JUPYTER_DTF_DATA_DIR: path.join(process.env.DTF_UI_DIRECTORY ?? '', 'dtf') }
  });
}

/** A cluster of a newer version is there, until what is returned is called. */
export function writeOtherVersion(name: string): () => void {
  const runtime = path.join(process.env.DTF_UI_DIRECTORY ?? '', 'runtime');
  execFileSync('python', [path.join(__dirname, 'other_version.py'), name, String(process.pid)], {
    env: { ...process.env, JUPYTER_RUNTIME_DIR: runtime }
  });
  return () => rmSync(path.join(runtime, 'jupyter_dtf', `${name}.json`));
}

/** Open a run's dashboard, and wait until `ready` holds in the page; the milliseconds that took, by the page's clock. */
export async function openRun(page: Page, run: string, ready: () => boolean): Promise<number> {
  const began = await page.evaluate(id => {
    const { jupyterapp } = window as unknown as {
      jupyterapp: { commands: { execute(id: string, args: object): Promise<void> } };
    };
    const now = performance.now();
    void jupyterapp.commands.execute('jupyter-dtf:open-run', { run: id });
    return now;
  }, run);
  await page.waitForFunction(ready);
  return (await page.evaluate(() => performance.now())) - began;
}

/** Close what is in front in the main area. */
export async function closeCurrent(page: Page): Promise<void> {
  await page.evaluate(() => {
    const { jupyterapp } = window as unknown as { jupyterapp: { shell: { currentWidget: { close(): void } | null } } };
    jupyterapp.shell.currentWidget?.close();
  });
}

/** Keep a picture of the page to be looked at. */
export async function picture(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: path.join(PICTURES, `${name}.png`) });
}

/** Begin a command of JupyterLab's; does not wait for its end. */
export async function execute(page: Page, command: string, args: Record<string, string> = {}): Promise<void> {
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
