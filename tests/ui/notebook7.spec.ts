import { expect, Locator, Page, test } from '@playwright/test';
import { execFileSync } from 'node:child_process';
import path from 'node:path';

import { execute, picture, writeNotebook } from './lab';

// Notebook 7, on the same server as JupyterLab. Each test continues where the previous one stopped.
test.describe.configure({ mode: 'serial' });

const CELLS = [
  `import ipywidgets, traitlets
import jupyter_dtf as dtf

def trains(_args, ctx):
    for step in range(1, 10**6):
        ctx.report(step=step, loss=1 / step)
        if ctx.stop_requested.wait(0.05):
            return

cluster = dtf.Cluster(jobs={"worker": 1}, name="seven")
run = cluster.run(trains, name="watched", wait=False)
widget, label = dtf.RunWidget(run), ipywidgets.Label()
traitlets.dlink((widget, "state"), (label, "value"), lambda state: f"It is {state}")
ipywidgets.HBox([widget, label])`,
  'run.show()',
  'dtf.RunWidget(run)',
  'dtf.RunWidget(run, dashboard=False)',
  'dtf.ClusterWidget(cluster)'
];

let page: Page;
const output = (cell: number): Locator => page.locator('.jp-CodeCell').nth(cell).locator('.jp-Cell-outputArea').first();
const dashboard = (within: Locator): Locator => within.locator('.jp-dtf-dashboard');

async function open(name: string): Promise<void> {
  await page.goto(`/notebooks/${name}?token=test`);
  // Until then, JupyterLab's components would ask which kernel to use.
  await page.waitForFunction(() => {
    interface Context {
      isReady: boolean;
      session: { kernel: { status: string } | null } | null;
    }
    const { jupyterapp } = window as unknown as {
      jupyterapp?: { shell: { currentWidget: { sessionContext: Context } | null } };
    };
    const context = jupyterapp?.shell.currentWidget?.sessionContext;
    return context?.isReady === true && context.session?.kernel?.status === 'idle';
  });
}

test.beforeAll(async ({ browser }) => {
  writeNotebook('seven.ipynb', CELLS);
  page = await browser.newPage();
});

test.afterAll(async () => {
  await page.close();
});

test('outputs show the dashboard, and widgets follow the run', async () => {
  const complaints: string[] = [];
  page.on('console', message => {
    if (message.type() === 'error' && message.text().includes('jupyter_dtf')) {
      complaints.push(message.text());
    }
  });
  await open('seven.ipynb');
  await execute(page, 'notebook:run-all-cells');
  await expect(output(0).getByText('It is running')).toBeVisible();
  for (const cell of [0, 1, 2]) {
    await expect(dashboard(output(cell)).getByRole('region', { name: 'loss' })).toBeVisible();
  }
  await expect(output(0).getByTitle('Stop the run watched')).toBeHidden(); // the dashboard has its own button
  const plain = output(3);
  await expect(plain.getByAltText('Metrics of the run')).toBeVisible();
  await expect(dashboard(plain)).toHaveCount(0);
  const cluster = output(4);
  await expect(cluster.getByText('seven running · local · 1 worker')).toBeVisible();
  await expect(cluster.getByRole('row', { name: 'watched running' })).toBeVisible();
  await picture(page, 'notebook7-light');
  await cluster.scrollIntoViewIfNeeded();
  await picture(page, 'notebook7-widgets-light');
  await execute(page, 'docmanager:save'); // while the run is in progress
  await expect(async () => {
    const { content } = (await (await page.request.get('/api/contents/seven.ipynb?token=test')).json()) as {
      content: { cells: { outputs: { data: object }[] }[] };
    };
    expect(content.cells.map(({ outputs }) => outputs.length)).toEqual([1, 1, 1, 1, 1]);
  }).toPass();
  const copied = await page.request.post('/api/contents?token=test', { data: { copy_from: 'seven.ipynb' } });
  expect(copied.ok()).toBe(true);
  const directory = process.env.DTF_UI_DIRECTORY!;
  // Otherwise, the copy would be shown without its widgets anyway.
  execFileSync('python', ['-m', 'jupyter', 'trust', path.join(directory, 'root', 'seven-Copy1.ipynb')], {
    env: { ...process.env, JUPYTER_DATA_DIR: path.join(directory, 'data') }
  });

  await plain.getByTitle('Stop the run watched').click();
  await expect(output(0).getByText('It is stopped')).toBeVisible();
  await expect(dashboard(output(1)).locator('.jp-dtf-header-state')).toContainText('stopped');
  await expect(plain.getByRole('button')).toHaveCount(0); // the last image remains
  await expect(plain.locator('img')).toBeVisible();
  await expect(cluster.getByRole('row', { name: 'watched ■ stopped' })).toBeVisible();
  await cluster.getByTitle('Stop the cluster seven').click();
  await expect(cluster.getByText('stopped', { exact: false }).first()).toBeVisible();
  await expect(cluster.getByRole('button')).toHaveCount(0);
  expect(complaints).toEqual([]);
});

test('a dashboard opens below the notebook', async () => {
  const runs = (await (await page.request.get('/jupyter-dtf/api/runs?token=test')).json()) as { id: string }[];
  await execute(page, 'jupyter-dtf:open-run', { run: runs[0]!.id });
  const below = page.locator('#jp-down-stack');
  await expect(dashboard(below).getByRole('region', { name: 'loss' })).toBeInViewport();
  await execute(page, 'jupyter-dtf:open-history');
  await expect(below.locator('.jp-dtf-history-row[data-run]').first()).toBeInViewport();
  await execute(page, 'jupyter-dtf:open-run', { run: runs[0]!.id });
  await expect(dashboard(below).getByRole('region', { name: 'loss' })).toBeInViewport();
  await picture(page, 'notebook7-below-light');
});

test('a notebook that was saved during the run shows its end when it is opened without its kernel', async () => {
  const sessions = (await (await page.request.get('/api/sessions?token=test')).json()) as { id: string }[];
  for (const { id } of sessions) {
    await page.request.delete(`/api/sessions/${id}?token=test`);
  }
  await open('seven-Copy1.ipynb');
  for (const cell of [1, 2]) {
    await expect(dashboard(output(cell)).locator('.jp-dtf-header-state')).toContainText('stopped');
  }
  await picture(page, 'notebook7-again-light');
});
