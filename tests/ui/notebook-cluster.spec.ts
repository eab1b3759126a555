import { expect, Page, test } from '@playwright/test';

import { execute, openLab, openPanel, picture, setTheme } from './lab';

// Each test continues where the previous one stopped.
test.describe.configure({ mode: 'serial' });

let page: Page;
let name = '';

const notebook = () => page.locator('.jp-NotebookPanel:visible');
const tool = () => notebook().locator('.jp-dtf-notebook-cluster button');
const clusters = async () => (await openPanel(page)).getByRole('listitem', { name: /^Cluster / });
const isIdle = () =>
  expect(page.locator('#jp-bottom-panel, #jp-main-statusbar').getByText('Python 3 (ipykernel) | Idle')).toBeVisible();

test.beforeAll(async ({ browser }) => {
  page = await browser.newPage();
});

test.afterAll(async () => {
  await page.close();
});

test('a copy of the example is opened, and connected to a cluster in the panel', async () => {
  await openLab(page);
  const panel = await openPanel(page);
  const more = panel.getByRole('button', { name: 'More actions' });
  await more.click();
  await page.getByRole('menuitem', { name: 'Open the Example' }).click();
  await expect(page.getByRole('tab', { name: 'digits.ipynb' })).toBeVisible();
  await expect(tool()).toHaveText('No cluster');
  await more.click();
  await page.getByRole('menuitem', { name: 'Start Two Local Workers' }).click();
  const row = await clusters();
  await expect(row).toHaveCount(1);
  name = (await row.getAttribute('data-name'))!;
  await isIdle();
  const file = (await (await page.request.get('/api/contents/digits.ipynb?token=test')).json()) as {
    content: { cells: unknown[] };
  };
  const cells = file.content.cells.length; // the page renders them one by one
  await expect(notebook().locator('.jp-Cell')).toHaveCount(cells);
  await row.getByRole('button', { name: `Connect the notebook to ${name}` }).click();
  await expect(tool()).toContainText(name);
  await expect(row.getByRole('button', { name: `Disconnect the notebook from ${name}` })).toBeVisible();
  await expect(notebook().locator('.jp-Cell')).toHaveCount(cells); // none is added: the example already uses it
  await expect(tool()).toContainText('2 workers');
  await picture(page, 'notebook-cluster-light');
});

test('the whole example runs on the connected cluster', async () => {
  await execute(page, 'notebook:run-all-cells');
  await expect(notebook().locator('.jp-OutputArea-output', { hasText: 'are read correctly' })).toBeVisible({
    timeout: 120_000
  });
  await expect(notebook().getByText('This is worker:1, 2 of 2').first()).toBeAttached({ timeout: 60_000 });
  await expect(notebook().locator('.jp-OutputArea-output', { hasText: 'Traceback' })).toHaveCount(0);
  await expect(await clusters()).toHaveCount(1);
  const runs = (await (await page.request.get('/jupyter-dtf/api/runs?token=test')).json()) as { cluster: string }[];
  expect(runs.slice(0, 2).map(run => run.cluster)).toEqual([name, name]);
});

test('after a restart of the kernel, the first cell gets the same cluster', async () => {
  await execute(page, 'notebook:clear-all-cell-outputs');
  await expect(notebook().locator('.jp-OutputArea-output')).toHaveCount(0);
  await execute(page, 'notebook:restart-run-all');
  await page.getByRole('button', { name: 'Confirm Kernel Restart' }).click();
  const first = notebook().locator('.jp-CodeCell', { hasText: 'cluster = dtf.cluster()' });
  await expect(async () => {
    await notebook()
      .locator('.jp-WindowedPanel-outer')
      .evaluate(panel => panel.scrollTo(0, 0)); // the notebook scrolls to the cells that run
    await expect(first.locator('.jp-InputPrompt')).toHaveText('[1]:', { timeout: 1_000 });
    await expect(first.getByRole('group', { name: `Cluster ${name}` })).toBeVisible({ timeout: 1_000 });
  }).toPass();
  await expect(tool()).toContainText(name);
  await expect(await clusters()).toHaveCount(1);
  await execute(page, 'notebook:interrupt-kernel'); // the previous test has run the rest
});

test('the toolbar button disconnects from the cluster and connects to it', async () => {
  await tool().click();
  const menu = page.getByRole('menu');
  await expect(menu.getByRole('menuitemcheckbox', { name: `${name} (2 workers)` })).toBeChecked();
  await picture(page, 'notebook-cluster-menu-light');
  await setTheme(page, true);
  await picture(page, 'notebook-cluster-menu-dark');
  await setTheme(page, false);
  await tool().click();
  await menu.getByRole('menuitem', { name: 'Disconnect' }).click();
  await expect(tool()).toHaveText('No cluster');
  await tool().click();
  await menu.getByRole('menuitem', { name: `${name} (2 workers)` }).click();
  await expect(tool()).toContainText(name);
});

test('without an open notebook, one is created with the cluster in its first cell', async () => {
  await page.keyboard.press('Escape');
  // A message of the kernel about its cluster may change the notebook's metadata after the notebook has been saved.
  const discard = page.locator('.jp-Dialog').getByRole('button', { name: 'Discard' });
  await page.addLocatorHandler(discard, button => button.click());
  await page.evaluate(async () => {
    const { jupyterapp } = window as unknown as {
      jupyterapp: { commands: { execute(id: string): Promise<void> } };
    };
    await jupyterapp.commands.execute('docmanager:save');
    await jupyterapp.commands.execute('application:close-all');
  });
  await expect(notebook()).toHaveCount(0);
  const row = await clusters();
  await row.getByRole('button', { name: `Connect the notebook to ${name}` }).click();
  await expect(tool()).toContainText(name);
  await expect(notebook().locator('.jp-Cell').first()).toContainText('cluster = dtf.cluster()');
  await isIdle();
  await execute(page, 'notebook:run-cell');
  await expect(notebook().locator('.jp-InputPrompt').first()).toHaveText('[1]:');
  await expect(row).toHaveCount(1);
  await picture(page, 'notebook-cluster-new-light');
  await row.getByRole('button', { name: `Stop ${name}`, exact: true }).click();
  await expect(row).toHaveCount(0);
  await expect(tool()).toContainText('not running');
});
