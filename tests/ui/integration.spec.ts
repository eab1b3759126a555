import { expect, Locator, Page, test } from '@playwright/test';

import { execute, openLab, openPanel, picture, runNotebook, setTheme, writeNotebook } from './lab';

// Each test continues where the previous one stopped.
test.describe.configure({ mode: 'serial' });

const NOTEBOOK = 'status.ipynb';
const NEVER_OPENS = '**/jupyter-dtf/api/events*';
const HEADERS = { Authorization: 'token test' };

let page: Page;

const bar = () => page.locator('.jp-dtf-status');
const running = (section: string): Locator =>
  page.getByRole('region', { name: `${section} Section` }).getByRole('treeitem');

test.beforeAll(async ({ browser }) => {
  page = await browser.newPage();
  // Runs of any duration count as long ones.
  const settings = '/lab/api/settings/jupyter_dtf:settings';
  const kept = await page.request.put(settings, { headers: HEADERS, data: { raw: '{"longRun": 0}' } });
  expect(kept.ok()).toBe(true);
  const cluster = { kind: 'local', name: 'status', jobs: { worker: 1 } };
  await page.request.post('/jupyter-dtf/api/clusters', { headers: HEADERS, data: cluster });
  writeNotebook(NOTEBOOK, [
    'import time\nimport jupyter_dtf as dtf\ncluster = dtf.cluster("status")',
    'cluster.run(lambda args, ctx: ctx.report(loss=0.5), name="quick")',
    `def work(args, ctx):
    for step in range(100_000):
        ctx.report(step, loss=1 / (1 + step))
        ctx.progress(50_000 + step, 100_000)
        time.sleep(0.05)
run = cluster.run(work, name="steady", wait=False)`
  ]);
});

test.afterAll(async () => {
  await page.request.delete('/jupyter-dtf/api/clusters/status', { headers: HEADERS });
  await page.close();
});

test("the status bar shows the notebook's cluster and run, and a notification the end of a run", async () => {
  await runNotebook(page, NOTEBOOK);
  await expect(page.locator('.Toastify__toast', { hasText: /quick has succeeded after \d+ s/ })).toBeVisible();
  await expect(bar().getByRole('button', { name: /^The notebook's cluster: status, 1 worker\. Show/ })).toBeVisible();
  const run = bar().getByRole('button', { name: /^Open the dashboard of steady, running, 50%, loss/ });
  await expect(run).toBeVisible();
  await expect(run.getByRole('progressbar')).toHaveAttribute('aria-valuenow', '50');
  for (const dark of [false, true]) {
    await setTheme(page, dark);
    for (const width of [1400, 800]) {
      await page.setViewportSize({ width, height: 900 });
      await expect(run).toBeInViewport();
      await picture(page, `status-bar-${width}-${dark ? 'dark' : 'light'}`);
    }
  }
  await setTheme(page, false);
  await page.setViewportSize({ width: 1400, height: 900 });
  await run.focus();
  await page.keyboard.press('Enter');
  await expect(page.locator('.jp-dtf-dashboard:visible').getByRole('heading', { name: 'steady' })).toBeVisible();
  await page.keyboard.press('ControlOrMeta+Shift+Y');
  await expect(page.locator('.jp-dtf-panel')).toBeVisible();
});

test('clusters and runs are listed in the Running panel, and can be stopped there', async () => {
  await execute(page, 'running:show-panel');
  const [cluster, run] = [running('TensorFlow Clusters'), running('TensorFlow Runs')];
  await expect(cluster).toContainText(['status1 worker · 1 run']);
  await expect(run).toContainText([/^steadystatus · 50% · loss/]);
  for (const dark of [false, true]) {
    await setTheme(page, dark);
    await picture(page, `running-${dark ? 'dark' : 'light'}`);
  }
  await setTheme(page, false);
  await run.hover();
  await run.getByTitle('Stop Run').click();
  await expect(run).toHaveCount(0);
  await expect(bar().getByRole('button', { name: /^Open the dashboard of steady, stopped/ })).toBeVisible();
  await expect(page.locator('.Toastify__toast', { hasText: 'steady' })).toHaveCount(0); // the user has stopped it
  await cluster.hover();
  await cluster.getByTitle('Stop Cluster').click();
  await expect(cluster).toHaveCount(0);
  await expect(bar().getByRole('button', { name: /^The notebook's cluster: status, not running/ })).toBeVisible();
});

test('the menus have the commands, and designs can be created and started in the file browser', async () => {
  const menu = page.locator('.lm-Menu').last();
  for (const [name, items] of [
    ['View', ['Show Clusters and Runs', 'All Runs']],
    ['Kernel', ['Connect to Cluster…', 'Disconnect from Cluster', "Open Dashboard of the Notebook's Run"]]
  ] as const) {
    await page.getByRole('menuitem', { name, exact: true }).click();
    for (const item of items) {
      await expect(menu.getByRole('menuitem', { name: item })).toBeVisible();
    }
    await picture(page, `menu-${name.toLowerCase()}`);
    await page.keyboard.press('Escape');
  }
  await execute(page, 'filebrowser:activate');
  const listing = page.locator('.jp-DirListing-content:visible');
  await listing.click({ button: 'right', position: { x: 60, y: 500 } });
  await menu.getByRole('menuitem', { name: 'New TensorFlow Design' }).click();
  await expect(page.locator('.jp-dtf-designer:visible')).toBeVisible();
  await listing.getByText('untitled.dtf', { exact: true }).click({ button: 'right' });
  const start = menu.getByRole('menuitem', { name: 'Start Cluster from Design' });
  await expect(start).not.toHaveClass(/lm-mod-disabled/);
  await picture(page, 'design-context-menu');
  await page.keyboard.press('Escape');
});

test('a WebSocket that a proxy blocks is distinguished from a server that does not respond', async () => {
  await page.routeWebSocket(NEVER_OPENS, socket => void socket.close());
  await openLab(page);
  const panel = await openPanel(page);
  await expect(panel.getByText(/its WebSocket cannot be opened/)).toBeVisible();
  await expect(panel.getByText(/^ws:\/\/127.0.0.1:\d+\/jupyter-dtf\/api\/events$/)).toBeVisible();
  await expect(bar().getByRole('button', { name: /is not working. Click to see what to do/ })).toBeVisible();
  for (const dark of [false, true]) {
    await setTheme(page, dark);
    await picture(page, `socket-blocked-${dark ? 'dark' : 'light'}`);
  }
  await setTheme(page, false);
});

test('the extension loads without errors in Notebook 7, which has no status bar', async ({ browser }) => {
  const other = await browser.newPage();
  const complaints: string[] = [];
  other.on('console', message => message.type() === 'error' && complaints.push(message.text()));
  await other.goto(`/tree?token=test`);
  await other.getByRole('tab', { name: 'Running' }).click();
  await expect(other.getByText('TensorFlow Clusters')).toBeVisible();
  await other.goto(`/notebooks/${NOTEBOOK}?token=test`);
  await expect(other.locator('.jp-dtf-notebook-cluster button')).toContainText('No cluster'); // none has been saved
  await execute(other, 'jupyter-dtf:open-history');
  await expect(other.locator('.jp-dtf-history-row[data-run]').first()).toBeVisible();
  await picture(other, 'notebook-7');
  expect(complaints.filter(text => /jupyter[_-]dtf/.test(text))).toEqual([]);
  await other.close();
});
