import { expect, Locator, Page, test } from '@playwright/test';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const PICTURES = path.join(__dirname, '../../artifacts/screenshots');

/**
 * Opens JupyterLab, with a file in the server's directory if one is given, and waits until it is ready.
 *
 * Each test file has its own workspace, so that documents left open by other files are not restored. Additional
 * browsers need their own workspace, too.
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

/** Opens the side panel if it is not open, and returns it. `title` is its title in the page's language. */
export async function openPanel(page: Page, title = 'Distributed TensorFlow'): Promise<Locator> {
  const panel = page.locator('.jp-dtf-panel');
  // A page that is being restored may open the panel between the check and the click, which would then close it.
  await expect(async () => {
    if (!(await panel.isVisible())) {
      await page.getByRole('tab', { name: title }).click();
    }
    await expect(panel).toBeVisible({ timeout: 2_000 });
  }).toPass();
  return panel;
}

/** Writes a notebook with these code cells to the server's directory. `outputs` has their data by MIME type. */
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

/** Opens a notebook and runs all its cells, without waiting for them to end. */
export async function runNotebook(page: Page, name: string): Promise<Locator> {
  await openLab(page, name);
  const notebook = page.locator('.jp-NotebookPanel:visible');
  // Until then, the session is not connected, and JupyterLab would ask which kernel to use.
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
  /** The number of points that each task reported of each metric. */
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
  /** The number of steps per epoch. Metrics of the epoch and of the validation are reported at its end. */
  epoch?: number;
  /** The step from which a metric is NaN, and the task on which it is first. */
  nan?: { metric: string; step: number; task: string };
  /** The step at which a task died, and the one from which the next attempt continued. */
  lost?: { step: number; from: number; task: string };
  /** The number of steps between checkpoints. */
  checkpoint?: number;
  /** The steps in which a task delayed the others. */
  slow?: { step: number; until: number; task: string };
  /** The trial and the search, if the run belongs to one. */
  trial?: Record<string, unknown>;
  /** The text of the cell that it was submitted from. */
  code?: string;
  /** The text of its `.dtf` file. */
  design?: string;
  /** Other fields of `Origin`. */
  origin?: Record<string, unknown>;
  /** Whether its tasks reported histograms and images, and printed colored output. */
  shows?: boolean;
}

/** Writes runs to the server's store. An open page receives them when its socket is opened again. */
export function writePastRuns(runs: PastRun[]): void {
  const whole = runs.map(run => ({ notes: 0, age: 3600, ...run }));
  execFileSync('python', [path.join(__dirname, 'past_runs.py')], {
    input: JSON.stringify(whole),
    env: { ...process.env, JUPYTER_DTF_DATA_DIR: path.join(process.env.DTF_UI_DIRECTORY ?? '', 'dtf') }
  });
}

/** Adds a cluster of a newer version. Returns a function that removes it. */
export function writeOtherVersion(name: string): () => void {
  const runtime = path.join(process.env.DTF_UI_DIRECTORY ?? '', 'runtime');
  execFileSync('python', [path.join(__dirname, 'other_version.py'), name, String(process.pid)], {
    env: { ...process.env, JUPYTER_RUNTIME_DIR: runtime }
  });
  return () => rmSync(path.join(runtime, 'jupyter_dtf', `${name}.json`));
}

/** Opens a run's dashboard, waits until `ready` is true in the page, and returns the milliseconds that this took. */
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

/** Closes the current widget of the main area. */
export async function closeCurrent(page: Page): Promise<void> {
  await page.evaluate(() => {
    const { jupyterapp } = window as unknown as { jupyterapp: { shell: { currentWidget: { close(): void } | null } } };
    jupyterapp.shell.currentWidget?.close();
  });
}

/** Saves a screenshot of the page, for people to look at. */
export async function picture(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: path.join(PICTURES, `${name}.png`) });
}

/** Starts a command of JupyterLab, without waiting for it to end. */
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

/** Switches to the light or the dark theme. */
export async function setTheme(page: Page, dark: boolean): Promise<void> {
  await execute(page, 'apputils:change-theme', { theme: dark ? 'JupyterLab Dark' : 'JupyterLab Light' });
  await expect(page.locator('body')).toHaveAttribute('data-jp-theme-light', dark ? 'false' : 'true');
}

/** Returns the command lines of running processes of the tests' clusters, which their environment identifies. */
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
      continue; // the process has just ended
    }
  }
  return found;
}
