import { expect, Page, test } from '@playwright/test';

import { clusterProcesses, openLab, openPanel, picture, runNotebook, setTheme, writeNotebook } from './lab';

// Each test continues where the previous one stopped.
test.describe.configure({ mode: 'serial' });

/** The latency of a slow connection, in each direction. */
const DELAY_MS = 400;

let page: Page;

/** Returns the current epoch that the dashboard in a page shows. */
async function epochOf(shown: Page): Promise<number> {
  const text = await shown.locator('.jp-dtf-dashboard:visible .jp-dtf-epoch').textContent();
  return Number(/epoch (\d+)/.exec(text ?? '')?.[1] ?? 0);
}

test.beforeAll(async ({ browser }) => {
  page = await browser.newPage();
});

test.afterAll(async () => {
  await page.close();
});

test('an empty panel says what to do next', async () => {
  await openLab(page);
  const panel = await openPanel(page);
  await expect(panel.getByText('A cluster is a set of TensorFlow processes')).toBeVisible();
  await expect(panel.getByRole('button', { name: 'Start two local workers' })).toBeVisible();
  await expect(panel.getByRole('button', { name: 'Open the example' })).toBeVisible();
  await picture(page, 'panel-empty-light');
});

test('the form shows a preview of the cluster, and errors next to their fields', async () => {
  const panel = await openPanel(page);
  await panel.getByRole('button', { name: 'New cluster' }).click();
  const dialog = page.getByRole('dialog');
  await expect(dialog.getByText('localhost:0').first()).toBeVisible();
  const name = dialog.getByLabel('Name', { exact: false }).first();
  await name.fill('Not A Name');
  await expect(dialog.getByText('lower-case letters, digits, hyphens')).toBeVisible();
  await picture(page, 'new-cluster-problem-light');
  await name.fill('digits');
  await expect(dialog.getByText('lower-case letters, digits, hyphens')).toBeHidden();
  await picture(page, 'new-cluster-light');
  await dialog.getByRole('button', { name: 'Start', exact: true }).click();
  await expect(dialog).toBeHidden();
  const row = panel.getByRole('listitem', { name: 'Cluster digits' });
  await expect(row.getByText('local · 2 workers')).toBeVisible();
  await expect(row.getByText('cpu')).toBeVisible();
});

test('plots change while a notebook trains on the cluster', async () => {
  writeNotebook('long.ipynb', [
    'import jupyter_dtf as dtf\ncluster = dtf.connect("digits")',
    `import keras, time
from sklearn.datasets import load_digits
x, y = load_digits(return_X_y=True)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
model.compile(keras.optimizers.SGD(0.001), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
# As slow as a model that is worth waiting for, and the machine has time for the page.
slowly = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: time.sleep(0.03))`,
    `run = cluster.fit(model, x / 16, y, epochs=100_000, batch_size=256, validation_split=0.2, callbacks=[slowly],
                  name="long", wait=False)
run`
  ]);
  await runNotebook(page, 'long.ipynb');
  const panel = await openPanel(page);
  await panel.getByRole('button', { name: /Open the dashboard of long, running/ }).click();
  const dashboard = page.locator('.jp-dtf-dashboard:visible');
  await expect(dashboard.locator('.jp-dtf-header-state')).toContainText('running');
  const plot = dashboard.locator('canvas').first();
  await expect(plot).toBeVisible();
  await expect(async () => {
    const before = await plot.screenshot();
    await expect.poll(async () => (await plot.screenshot()).equals(before), { timeout: 60_000 }).toBe(false);
  }).toPass();
  await expect(dashboard.getByText(/epoch \d+\/100000/)).toBeVisible();
  await picture(page, 'dashboard-running-light');
});

test('the Machines tab has the plots that the server describes', async () => {
  const dashboard = page.locator('.jp-dtf-dashboard:visible');
  await dashboard.getByRole('tab', { name: /^Machines/ }).click();
  const machines = dashboard.getByRole('region', { name: 'Machines during the run' });
  await machines.scrollIntoViewIfNeeded(); // hidden plots are neither requested nor drawn
  for (const [plot, lines, value] of [
    ['CPU', ['this cluster', 'whole machine'], /\d/],
    ['Memory', ['this cluster', 'whole machine'], /[KMGT]iB/],
    ['Network', ['received', 'sent'], /B\/s/]
  ] as const) {
    const card = machines.getByRole('region', { name: new RegExp(`^${plot} · `) }).first();
    await card.scrollIntoViewIfNeeded();
    await expect(card.locator('canvas').first()).toBeVisible();
    await expect(card.getByRole('heading', { name: plot })).toBeVisible();
    for (const line of lines) {
      await expect(card.getByText(line)).toBeVisible();
    }
    await expect(card.locator('.jp-dtf-plot-value').first()).toHaveText(value);
  }
  // Only new data is requested.
  const asked = await page.waitForRequest(request => request.url().includes('/machines?after='));
  const next = await page.waitForRequest(request => request.url().includes('/machines?after='));
  const after = (url: string) => Number(new URL(url).searchParams.get('after'));
  expect(after(next.url())).toBeGreaterThan(after(asked.url()));
  await machines.scrollIntoViewIfNeeded();
  for (const dark of [false, true]) {
    await setTheme(page, dark);
    await machines.evaluate(element => element.scrollIntoView());
    await picture(page, `machines-history-${dark ? 'dark' : 'light'}`);
  }
  await setTheme(page, false);
});

test('the next steps are traced on request', async () => {
  const dashboard = page.locator('.jp-dtf-dashboard:visible');
  await dashboard.getByRole('tab', { name: 'Timeline' }).click();
  const tab = dashboard.getByRole('tabpanel', { name: 'Timeline' });
  await expect(tab.getByText('This run has no timeline yet. Profile records the next steps')).toBeVisible();
  for (const dark of [true, false]) {
    await setTheme(page, dark);
    await picture(page, `timeline-none-${dark ? 'dark' : 'light'}`);
  }
  await tab.getByRole('button', { name: 'Profile' }).click();
  await expect(tab.getByRole('status')).toHaveText('Tracing the next 3 steps…');
  await picture(page, 'timeline-profiling-light');
  await expect(tab.getByRole('group', { name: /^Timeline of 2 devices/ })).toBeVisible();
  await expect(tab.getByRole('status')).toHaveText('');
  const steps = tab.getByRole('combobox', { name: 'step' }).getByRole('option');
  await expect(steps.first()).toHaveText(/^all [3-6]$/); // on a busy machine, a task may get the request late
  // A second trace replaces the first.
  const first = await steps.allTextContents();
  await tab.getByRole('button', { name: 'Profile' }).click();
  await expect(tab.getByRole('status')).toHaveText('Tracing the next 3 steps…');
  await expect(tab.getByRole('status')).toHaveText('');
  await expect.poll(() => steps.allTextContents()).not.toEqual(first);
});

test('screenshots of each view in both themes and widths', async () => {
  const dashboard = page.locator('.jp-dtf-dashboard:visible');
  for (const dark of [false, true]) {
    await setTheme(page, dark);
    const theme = dark ? 'dark' : 'light';
    for (const tab of ['Metrics', 'Machines', 'Timeline', 'Output', 'Events']) {
      await dashboard.getByRole('tab', { name: new RegExp(`^${tab}`) }).click();
      await expect(dashboard.getByRole('tabpanel', { name: new RegExp(`^${tab}`) })).toBeVisible();
      if (tab === 'Timeline') {
        await expect(dashboard.getByRole('group', { name: /^Timeline of 2 devices/ })).toBeVisible();
      }
      await picture(page, `dashboard-${tab.toLowerCase()}-${theme}`);
    }
    await page.setViewportSize({ width: 800, height: 900 });
    for (const tab of ['Timeline', 'Metrics']) {
      await dashboard.getByRole('tab', { name: tab }).click();
      await picture(page, `dashboard-${tab.toLowerCase()}-narrow-${theme}`);
    }
    await page.setViewportSize({ width: 1400, height: 900 });
  }
  await setTheme(page, false);
});

test('a reloaded page restores the dashboard', async () => {
  await page.reload();
  await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
  const dashboard = page.locator('.jp-dtf-dashboard:visible');
  await expect(dashboard.locator('.jp-dtf-header-state')).toContainText('running');
  await expect(dashboard.locator('canvas').first()).toBeVisible();
  await dashboard.getByRole('tab', { name: /^Events/ }).click();
  await expect(
    dashboard
      .getByRole('tabpanel', { name: /^Events/ })
      .getByText('worker:1')
      .first()
  ).toBeVisible();
  await dashboard.getByRole('tab', { name: /^Metrics/ }).click();
});

test('the WebSocket reconnects by itself and continues', async () => {
  await page.context().setOffline(true);
  const before = await epochOf(page);
  await page.context().setOffline(false);
  await expect.poll(() => epochOf(page)).toBeGreaterThan(before);
});

test('another browser on a slow connection shows the same run, and can stop it', async ({ browser }) => {
  const other = await browser.newPage();
  await other.routeWebSocket(/jupyter-dtf/, socket => {
    const server = socket.connectToServer();
    socket.onMessage(message => setTimeout(() => server.send(message), DELAY_MS));
    server.onMessage(message => setTimeout(() => socket.send(message), DELAY_MS));
  });
  await openLab(other, '', 'another-browser');
  const panel = await openPanel(other);
  await panel.getByRole('button', { name: /Open the dashboard of long, running/ }).click();
  await expect(other.locator('.jp-dtf-dashboard:visible canvas').first()).toBeVisible();
  for (const each of [other, page]) {
    const before = await epochOf(each);
    await expect.poll(() => epochOf(each)).toBeGreaterThan(before);
  }
  await picture(other, 'dashboard-another-browser-light');

  await other.locator('.jp-dtf-dashboard:visible').getByRole('button', { name: 'Stop long' }).click();
  const confirm = other.getByRole('dialog').getByRole('button', { name: 'Stop' });
  if (await confirm.isVisible().catch(() => false)) {
    await confirm.click();
  }
  for (const each of [other, page]) {
    await expect(each.locator('.jp-dtf-dashboard:visible .jp-dtf-header-state')).toContainText('stopped');
  }
  expect(await epochOf(other)).toBe(await epochOf(page));
  await other.close();
  await picture(page, 'dashboard-stopped-light');
});

test('the example notebook runs to the end', async () => {
  const notebook = await runNotebook(page, 'examples/digits.ipynb');
  await expect(notebook.locator('.jp-OutputArea-output', { hasText: 'are read correctly' })).toBeVisible();
  await expect(notebook.getByText('This is worker:1, 2 of 2').first()).toBeAttached();
  await expect(notebook.locator('.jp-OutputArea-output', { hasText: 'Traceback' })).toHaveCount(0);
  await notebook.locator('.jp-WindowedPanel-outer').evaluate(panel => panel.scrollTo(0, 900));
  await expect(notebook.locator('.jp-OutputArea-output canvas').first()).toBeInViewport();
  await picture(page, 'example-notebook-light');
});

test('the clusters are stopped in the panel, and no process is left', async () => {
  const panel = await openPanel(page);
  const rows = panel.getByRole('listitem', { name: /^Cluster / });
  await expect(rows).toHaveCount(2); // including the one that the example has started
  for (const name of await rows.evaluateAll(items => items.map(item => item.dataset.name!))) {
    await panel.getByRole('button', { name: `Stop ${name}`, exact: true }).click();
    const confirm = page.getByRole('dialog').getByRole('button', { name: /Stop/ });
    await confirm.click({ timeout: 5_000 }).catch(() => undefined);
  }
  await expect(rows).toHaveCount(0);
  await expect.poll(clusterProcesses).toEqual([]);
  await panel.getByRole('button', { name: /Open the dashboard of long, stopped/ }).click();
  const dashboard = page.locator('.jp-dtf-dashboard:visible');
  await dashboard.getByRole('tab', { name: /^Machines/ }).click();
  const machines = dashboard.getByRole('region', { name: 'Machines during the run' });
  await expect(machines.getByText('The cluster digits is gone')).toBeVisible();
  await expect(machines.locator('canvas')).toHaveCount(0);
  await picture(page, 'machines-gone-light');
});
