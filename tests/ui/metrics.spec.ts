import { expect, Locator, Page, test } from '@playwright/test';

import { closeCurrent, openLab, openRun, picture, setTheme, writeNotebook, writePastRuns } from './lab';

// Each test continues where the previous one stopped.
test.describe.configure({ mode: 'serial' });

// The plots on the screen and near it. There are 500 in total.
const MOST_FIGURES = 60;

let page: Page;
let dashboard: Locator;

test.beforeAll(async ({ browser }) => {
  const layers = Array.from({ length: 496 }, (_, i) => `layer_${i >> 1}/${i % 2 ? 'norm' : 'gradient'}`);
  writePastRuns([
    { id: 'many', metrics: ['loss', 'val_loss', 'accuracy', 'learning_rate', ...layers], tasks: 2, points: 50 }
  ]);
  page = await browser.newPage();
  dashboard = page.locator('.jp-dtf-dashboard:visible');
});

test.afterAll(async () => {
  await page.close();
});

const figures = () => dashboard.locator('.jp-dtf-plot-area[role=slider]');
const scroll = (share: number) =>
  dashboard
    .locator('.jp-dtf-tabpanel:visible')
    .evaluate((panel, at) => panel.scrollTo(0, at * panel.scrollHeight), share);

test('a run with 500 metrics opens with the important ones, and the rest under headings', async () => {
  await openLab(page);
  await openRun(page, 'many', () => document.querySelectorAll('.jp-dtf-plot').length > 0);
  // The page responds while the plots are being created.
  await dashboard.getByRole('tab', { name: 'Events' }).click();
  await expect(dashboard.getByRole('tabpanel', { name: 'Events' })).toBeVisible();
  await dashboard.getByRole('tab', { name: 'Metrics' }).click();
  await expect(dashboard.getByRole('heading', { level: 3 })).toHaveText([
    'loss',
    'accuracy',
    'learning rate',
    'layer_*496 plots'
  ]);
  await expect(figures()).toHaveCount(3);
  await picture(page, 'metrics-500-folded-light');
});

test('plots are created when they scroll into view, and removed when they leave it', async () => {
  await dashboard.getByRole('button', { name: 'Expand all' }).click();
  await expect(dashboard.getByRole('button', { name: /^layer_247\b/ })).toBeAttached();
  await expect(dashboard.locator('.jp-dtf-plot')).toHaveCount(499);
  const loss = dashboard.getByRole('slider', { name: /^Values of loss/ });
  await expect(loss.locator('canvas').first()).toBeVisible();
  const last = dashboard.getByRole('slider', { name: 'Values of layer 247/norm' });
  await scroll(1);
  await expect(last.locator('canvas').first()).toBeInViewport();
  await expect(loss).toHaveCount(0);
  expect(await figures().count()).toBeLessThan(MOST_FIGURES);
  await scroll(0);
  await expect(loss.locator('canvas').first()).toBeInViewport();
  await expect(last).toHaveCount(0);
  expect(await figures().count()).toBeLessThan(MOST_FIGURES);
  await picture(page, 'metrics-500-open-light');
});

test('a search finds metrics under collapsed headings', async () => {
  await dashboard.getByRole('button', { name: 'Collapse all' }).click();
  await expect(dashboard.locator('.jp-dtf-plot')).toHaveCount(3);
  const filter = dashboard.getByRole('searchbox');
  await filter.fill('layer_1[02]/ norm');
  await expect(dashboard.getByText('2 of 499')).toBeVisible();
  await expect(dashboard.getByRole('region', { name: 'layer 12/norm' })).toBeVisible();
  await expect(dashboard.locator('.jp-dtf-plot')).toHaveCount(2);
  await picture(page, 'metrics-500-filter-light');
  await filter.press('Escape');
  await expect(dashboard.locator('.jp-dtf-plot')).toHaveCount(3);
});

test('the crosshair and the values on all plots follow the pointer and the keyboard', async () => {
  const plot = dashboard.getByRole('slider', { name: /^Values of accuracy/ });
  const value = dashboard.getByRole('region', { name: 'loss' }).locator('.jp-dtf-plot-value').first();
  const newest = await value.textContent();
  await plot.hover();
  await expect(dashboard.locator('.jp-dtf-plot-crosshair:visible')).toHaveCount(3);
  await expect(value).not.toHaveText(newest ?? '');
  await page.mouse.move(0, 0);
  await expect(dashboard.locator('.jp-dtf-plot-crosshair:visible')).toHaveCount(0);
  await expect(value).toHaveText(newest ?? '');
  await plot.focus();
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowLeft');
  await expect(plot).toHaveAttribute('aria-valuetext', /^4\d, worker:0 [\d.]+, worker:1 [\d.]+$/);
});

test('expanded headings and pinned plots are restored after a reload', async () => {
  const heading = dashboard.getByRole('button', { name: /^layer_\*/ });
  await heading.press('Enter');
  await expect(heading).toHaveAttribute('aria-expanded', 'true');
  await dashboard.getByRole('button', { name: /^layer_3\b/ }).click();
  // The expanded heading is saved in a request of its own, perhaps only now, so wait for the one with the pinned plot.
  const kept = page.waitForResponse(response => {
    const request = response.request();
    return (
      response.url().includes('/api/workspaces') &&
      request.method() === 'PUT' &&
      (request.postData() ?? '').includes('layer_3/norm')
    );
  });
  await dashboard.getByRole('button', { name: 'Keep layer_3/norm on top' }).click();
  await expect(dashboard.getByRole('heading', { level: 3 }).first()).toHaveText('layer 3/norm');
  await kept;
  await page.reload();
  await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
  await expect(dashboard.getByRole('heading', { level: 3 }).first()).toHaveText('layer 3/norm');
  await expect(dashboard.getByRole('button', { name: /^layer_3\b/ })).toHaveAttribute('aria-expanded', 'true');
  await expect(figures().first()).toBeVisible();
  await setTheme(page, true);
  await page.setViewportSize({ width: 900, height: 900 });
  await picture(page, 'metrics-500-open-narrow-dark');
  await page.setViewportSize({ width: 1400, height: 900 });
  await setTheme(page, false);
});

test('opening and closing a dashboard repeatedly leaves no Bokeh plots behind', async () => {
  const client = await page.context().newCDPSession(page);
  await client.send('Performance.enable');
  const nodes = async () => {
    await client.send('HeapProfiler.collectGarbage');
    const { metrics } = await client.send('Performance.getMetrics');
    return metrics.find(({ name }) => name === 'Nodes')!.value;
  };
  const openAndClose = async () => {
    await openRun(page, 'many', () => document.querySelector('.jp-dtf-plot-area[role=slider] .bk-Figure') !== null);
    await closeCurrent(page);
    await expect(page.locator('.jp-dtf-dashboard')).toHaveCount(0);
  };
  await closeCurrent(page);
  await openAndClose();
  await openAndClose();
  const before = await nodes();
  const rounds = 5;
  for (let round = 0; round < rounds; round++) {
    await openAndClose();
  }
  // JupyterLab keeps one button of each toolbar, with about 40 nodes. A plot that was not removed would be 300 nodes.
  await expect.poll(nodes).toBeLessThan(before + 100 * rounds);
});

test("a notebook's output is as tall as its plots, and nothing covers them", async () => {
  writePastRuns([
    { id: 'short', metrics: ['loss', 'val_loss', 'accuracy', 'f1'], tasks: 2, points: 50 },
    { id: 'broken', metrics: [], tasks: 2, points: 1, state: 'failed', message: 'worker:0: ValueError: no' }
  ]);
  writeNotebook(
    'outputs.ipynb',
    ['run.show()', 'broken.show()'],
    [
      { 'application/vnd.jupyter-dtf.run+json': { run: 'short' } },
      { 'application/vnd.jupyter-dtf.run+json': { run: 'broken' } }
    ]
  );
  await openLab(page, 'outputs.ipynb');
  const outputs = page.locator('.jp-dtf-run-output');
  const plot = outputs.first().locator('.jp-dtf-plot').first();
  await expect(plot.locator('canvas').first()).toBeVisible();
  const inner = await outputs.first().evaluate(output =>
    [output, ...output.querySelectorAll('*')]
      .filter(node => node.scrollHeight > node.clientHeight + 1)
      .filter(node => /auto|scroll/.test(getComputedStyle(node).overflowY))
      .map(node => node.className)
  );
  expect(inner).toEqual([]);
  // While the pointer is on the plot, its buttons are shown above its frame.
  await plot.hover();
  const button = plot.getByRole('button', { name: 'Save loss', exact: true });
  await expect(button).toBeVisible();
  const [buttons, area, legend] = await Promise.all(
    [button, plot.locator('.jp-dtf-plot-area'), plot.locator('.jp-dtf-plot-legend')].map(part => part.boundingBox())
  );
  expect(buttons!.y + buttons!.height).toBeLessThanOrEqual(legend!.y);
  expect(legend!.y + legend!.height).toBeLessThanOrEqual(area!.y + 1);
  await expect(plot.locator('.bk-Toolbar')).toHaveCount(0);
  // The output of a run that failed is its error, without an empty frame for plots.
  const broken = outputs.nth(1);
  await expect(broken.getByRole('alert')).toHaveText('worker:0: ValueError: no');
  await expect(broken.getByRole('toolbar')).toBeHidden();
});
