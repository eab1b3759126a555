import { expect, Page, test } from '@playwright/test';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { execute, openLab, picture, setTheme, writePastRuns } from './lab';

// The number of past runs, in addition to two that have epochs and two tasks each.
const MANY = 2000;
const HEAD = Array.from({ length: 12 }, (_, line) => `import module_${line}`);
const program = (optimizer: string) => [...HEAD, `model.compile("${optimizer}")`, 'model.fit(x, y)'].join('\n');
const design = (task: number) =>
  JSON.stringify({ version: 1, placement: { devices: { dense: `/job:worker/task:${task}/device:CPU:0` } } });
// Distinguishes the runs of this file from those that other test files have left.
const STORY = { story: 'history' };
let page: Page;

test.beforeAll(async ({ browser }) => {
  const metrics = ['loss', 'epoch_loss', 'val_loss', 'accuracy'];
  const common = { metrics, tasks: 2, points: 60, epoch: 20, strategy: 'allreduce' };
  writePastRuns([
    {
      ...common,
      id: 'first',
      name: 'digits',
      age: 10,
      parameters: { ...STORY, batch_size: 64, optimizer: 'SGD', epochs: 3 },
      code: program('SGD'),
      design: design(0),
      origin: { commit: 'a1b2c3d4'.repeat(5), versions: { TensorFlow: '2.20.0', Python: '3.12.1' } }
    },
    {
      ...common,
      id: 'second',
      name: 'digits 2',
      age: 5,
      parameters: { ...STORY, batch_size: 128, optimizer: 'Adam', epochs: 3 },
      code: program('Adam'),
      design: design(1),
      origin: { commit: 'a1b2c3d4'.repeat(5), versions: { TensorFlow: '2.21.0', Python: '3.12.1' } }
    },
    ...Array.from({ length: MANY }, (_, index) => ({
      id: `old-${index}`,
      name: `old ${index}`,
      metrics: [],
      tasks: 1,
      points: 0,
      age: 1_000_000 + index, // older than the runs that other test files show in the panel
      parameters: { ...STORY, batch_size: index }
    }))
  ]);
  page = await browser.newPage();
  await openLab(page);
  await execute(page, 'jupyter-dtf:open-history');
});

test.afterAll(async () => {
  await page.close();
});

const rows = () => page.locator('.jp-dtf-history-row[data-run]');

test('runs are found among thousands, tagged, deleted and restored', async () => {
  await expect(rows().first()).toHaveAttribute('data-run', 'second');
  expect(await rows().count()).toBeLessThan(200);
  const find = page.getByRole('searchbox', { name: 'Find runs by words or conditions' });
  await find.fill('batch_size >= 1998 and name ~ old');
  await expect(rows()).toHaveCount(2);

  await rows()
    .first()
    .getByRole('button', { name: /^Actions for/ })
    .click();
  await page.getByRole('menuitem', { name: 'Edit Tags of Run…' }).click();
  await page.locator('.jp-Dialog input').fill('slow, to look at');
  await page.locator('.jp-Dialog').getByRole('button', { name: 'Ok' }).click();
  await expect(rows().first()).toContainText('slow, to look at');
  await find.fill('to look at');
  await expect(rows()).toHaveCount(1);

  await rows()
    .first()
    .getByRole('button', { name: /^Actions for/ })
    .click();
  await page.getByRole('menuitem', { name: 'Delete Run' }).click();
  await expect(rows()).toHaveCount(0);
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(rows()).toHaveCount(1);
  await find.fill('');
});

test('runs are grouped, and groups are collapsed at first', async () => {
  await page.getByRole('searchbox', { name: 'Find runs by words or conditions' }).fill('story = history');
  const choice = page.getByLabel('Group by');
  await choice.selectOption('strategy');
  const groups = page.locator('.jp-dtf-history-group');
  await expect(groups).toHaveCount(2);
  await expect(groups.first()).toContainText('allreduce 2 runs');
  await expect(groups.nth(1)).toContainText(`without strategy ${MANY} runs`);
  await expect(rows()).toHaveCount(0);
  await groups.first().getByRole('button').click();
  await expect(rows()).toHaveCount(2);
  await page.getByRole('button', { name: 'Collapse all' }).click();
  await page.getByRole('button', { name: 'Expand all' }).click();
  await expect(rows().nth(40)).toBeAttached();
  expect(await rows().count()).toBeLessThan(200);
  await picture(page, 'history-groups-light');
  await choice.selectOption('');
  await expect(groups).toHaveCount(0);
});

test('selected runs are compared: plots, parameters, code and designs', async () => {
  await page.getByLabel('Compare digits', { exact: true }).check();
  await page.getByLabel('Compare digits 2', { exact: true }).check();
  const compared = page.getByRole('region', { name: 'Comparison' });
  const loss = compared.getByRole('region', { name: 'loss', exact: true });
  await expect(loss.locator('.bk-Figure')).toBeVisible();
  await expect(loss.locator('.jp-dtf-plot-legend')).toContainText('digits 2');
  await picture(page, 'history-light');
  await compared.getByRole('tab', { name: 'Parameters' }).click();
  await expect(compared.getByRole('row', { name: /parameters.batch_size/ })).toContainText('64128');
  await expect(compared.getByRole('row', { name: /parameters.epochs/ })).toHaveCount(0);
  await compared.getByRole('tab', { name: 'Code' }).click();
  const piece = compared.getByRole('region', { name: 'cell', exact: true });
  await expect(piece).toContainText('1 line differs');
  await expect(piece.locator('tr[data-differs]')).toContainText('model.compile("SGD")13+model.compile("Adam")');
  await expect(piece.getByRole('button', { name: '9 unchanged lines' })).toBeVisible();
  await expect(compared.getByRole('row', { name: /TensorFlow/ })).toContainText('2.20.02.21.0');
  await picture(page, 'history-code-light');
  await compared.getByRole('tab', { name: 'Designs' }).click();
  await expect(compared.getByRole('row', { name: /placement.dense/ })).toContainText('worker:0 CPU:0worker:1 CPU:0');
  await picture(page, 'history-designs-light');
  await setTheme(page, true);
  await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
  await picture(page, 'history-designs-dark');
  for (const tab of ['Code', 'Parameters']) {
    await compared.getByRole('tab', { name: tab }).click();
    await picture(page, `history-${tab.toLowerCase()}-dark`);
  }
  await page.setViewportSize({ width: 800, height: 900 });
  await compared.getByRole('tab', { name: 'Code' }).click();
  await picture(page, 'history-code-narrow-dark');
  await page.setViewportSize({ width: 1400, height: 900 });
  await setTheme(page, false);
});

test('the dashboard of a run shows its code', async () => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'digits', exact: true }).click();
  const dashboard = page.locator('.jp-dtf-dashboard:visible');
  await dashboard.getByRole('tab', { name: 'Code' }).click();
  const code = dashboard.getByRole('tabpanel', { name: 'Code' });
  await expect(code.locator('.jp-dtf-code-text')).toHaveText(program('SGD') + '\n');
  await code.getByRole('button', { name: 'Copy cell', exact: true }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(program('SGD'));
  await code.getByRole('button', { name: 'Copy the commit', exact: true }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('a1b2c3d4'.repeat(5));
  await picture(page, 'dashboard-code-light');
});

const ROOT = path.join(process.env.DTF_UI_DIRECTORY ?? '', 'root');

test('plots of several runs are saved as a dashboard file', async () => {
  await execute(page, 'jupyter-dtf:open-history');
  const compared = page.getByRole('region', { name: 'Comparison' });
  await compared.getByRole('tab', { name: 'Plots' }).click();
  await compared.getByRole('button', { name: 'Save as dashboard file' }).click();
  const view = page.locator('.jp-dtf-runs-dashboard:visible');
  const loss = view.getByRole('region', { name: 'Plot of loss', exact: true });
  await expect(loss.locator('.bk-Figure')).toBeVisible();
  await expect(loss.locator('.jp-dtf-plot-legend')).toContainText('digits 2');
  await expect(view.getByRole('list', { name: 'Runs' })).toContainText('digits 2');

  const dirty = page.locator('#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current.jp-mod-dirty');
  await expect(dirty).toHaveCount(0);
  await view.getByRole('button', { name: 'Move accuracy up' }).click();
  await loss.getByLabel('log').check();
  await view.getByLabel('Title').fill('Optimizers');
  await expect(dirty).toHaveCount(1);
  await execute(page, 'docmanager:save');
  await expect(dirty).toHaveCount(0);
  const kept = JSON.parse(readFileSync(path.join(ROOT, 'untitled.dtfplots'), 'utf8')) as object;
  expect(kept).toEqual({
    version: 1,
    title: 'Optimizers',
    x: 'step',
    runs: [
      { id: 'first', name: 'digits' },
      { id: 'second', name: 'digits 2' }
    ],
    plots: [
      { metric: 'accuracy', smoothing: 0, log: false },
      { metric: 'loss', smoothing: 0, log: true }
    ]
  });
  await picture(page, 'runs-dashboard-light');
  await setTheme(page, true);
  await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
  await page.setViewportSize({ width: 900, height: 900 });
  await expect(loss.locator('.bk-Figure')).toBeVisible();
  await picture(page, 'runs-dashboard-narrow-dark');
  await page.setViewportSize({ width: 1400, height: 900 });
  await setTheme(page, false);
});

test('a dashboard file names runs that no longer exist, and an invalid file is left unchanged', async () => {
  const kept = {
    runs: [{ id: 'first' }, { id: 'gone', name: 'digits of May' }],
    plots: [{ metric: 'loss', smoothing: 0.4 }, { metric: 'f1' }]
  };
  writeFileSync(path.join(ROOT, 'kept.dtfplots'), JSON.stringify(kept));
  writeFileSync(path.join(ROOT, 'broken.dtfplots'), '{"plots": 3}');
  await execute(page, 'docmanager:open', { path: 'kept.dtfplots' });
  const view = page.locator('.jp-dtf-runs-dashboard:visible');
  await expect(view.getByText('digits of May no longer exists')).toBeVisible();
  await expect(view.getByText('None of these runs has reported f1.')).toBeVisible();
  await expect(view.locator('.bk-Figure')).toHaveCount(1);
  await expect(view.getByRole('button', { name: 'Undo' })).toHaveCount(0);
  await execute(page, 'docmanager:open', { path: 'broken.dtfplots' });
  await expect(page.getByRole('alert').getByText('`plots` must be an array, got 3')).toBeVisible();
  await page.getByRole('button', { name: 'Open as text' }).click();
  await expect(page.locator('.jp-FileEditor:visible')).toContainText('{"plots": 3}');
  expect(readFileSync(path.join(ROOT, 'broken.dtfplots'), 'utf8')).toBe('{"plots": 3}');
});
