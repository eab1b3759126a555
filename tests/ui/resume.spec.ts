import { expect, Page, test } from '@playwright/test';
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { clusterProcesses, openPanel, picture, runNotebook, setTheme, writeNotebook } from './lab';

// Each test continues where the previous one stopped.
test.describe.configure({ mode: 'serial' });

let page: Page;

test.beforeAll(async ({ browser }) => {
  page = await browser.newPage();
});

test.afterAll(async () => {
  await page.close();
});

/** Returns the process ID of a cluster, from its connection file. */
function processOf(cluster: string): number {
  const file = path.join(process.env.DTF_UI_DIRECTORY ?? '', 'runtime', 'jupyter_dtf', `${cluster}.json`);
  return Number((JSON.parse(readFileSync(file, 'utf8')) as { pid: number }).pid);
}

const dashboard = () => page.locator('.jp-dtf-dashboard:visible');

async function pictures(name: string): Promise<void> {
  for (const dark of [false, true]) {
    await setTheme(page, dark);
    await picture(page, `${name}-${dark ? 'dark' : 'light'}`);
  }
  await setTheme(page, false);
}

test('a run is paused and continued in its dashboard', async () => {
  writeNotebook('resumed.ipynb', [
    'import jupyter_dtf as dtf\nfirst = dtf.Cluster(jobs={"worker": 2}, name="first", keep=True)',
    `import keras, time
from sklearn.datasets import load_digits
x, y = load_digits(return_X_y=True)
model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
slowly = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: time.sleep(0.03))
run = first.fit(model, x / 16, y, epochs=100_000, batch_size=256, callbacks=[slowly],
                checkpoint=dtf.Checkpoint(every_steps=10), name="long", wait=False)
run.info.id`
  ]);
  await runNotebook(page, 'resumed.ipynb');
  const panel = await openPanel(page);
  await panel.getByRole('button', { name: /Open the dashboard of long, running/ }).click();
  await expect(dashboard().getByText(/epoch \d+\/100000/)).toBeVisible();
  await dashboard().getByRole('button', { name: 'Pause long' }).click();
  await expect(dashboard().locator('.jp-dtf-header-state')).toContainText('paused');
  await expect(dashboard().getByText(/^after step \d+$/)).toBeVisible();
  await expect(panel.getByRole('button', { name: 'Continue long' })).toBeVisible();
  await pictures('run-paused');
  await dashboard().getByRole('button', { name: 'Continue long' }).click();
  await expect(dashboard().locator('.jp-dtf-header-state')).toContainText('running');
  await expect(dashboard().getByText('attempt 2 of 5')).toBeVisible();
});

test('a run whose cluster has died is resumed on another one', async () => {
  const panel = await openPanel(page);
  process.kill(processOf('first'), 'SIGKILL');
  await expect(dashboard().locator('.jp-dtf-header-state')).toContainText('lost');
  await expect(dashboard().getByText(/Its last checkpoint is from step \d+/)).toBeVisible();
  await expect(panel.getByRole('button', { name: 'Resume long on…' })).toBeVisible();
  await dashboard().getByRole('button', { name: 'Resume long on…' }).click();
  const menu = page.getByRole('menu');
  await expect(menu.getByText('A new local cluster')).toBeVisible();
  await pictures('run-lost');
  await page.keyboard.press('Escape');
  await dashboard().getByRole('button', { name: 'Resume long on…' }).click();
  await menu.getByText('A new local cluster').click();
  await expect(dashboard().getByRole('heading', { name: 'long 2' })).toBeVisible();
  await expect(dashboard().locator('.jp-dtf-header-state')).toContainText('running');
  await expect(dashboard().getByText(/resumed from/)).toBeVisible();
  await pictures('run-resumed');
  await dashboard().getByRole('button', { name: 'long', exact: true }).click();
  await expect(dashboard().locator('.jp-dtf-header-state')).toContainText('lost');
});

test('all clusters stop, and no process is left', async () => {
  const panel = await openPanel(page);
  const rows = panel.getByRole('listitem', { name: /^Cluster / });
  for (const name of await rows.evaluateAll(items => items.map(item => item.dataset.name!))) {
    await panel.getByRole('button', { name: new RegExp(`^(Stop|Dismiss) ${name}$`) }).click();
    const confirm = page.getByRole('dialog').getByRole('button', { name: /Stop/ });
    await confirm.click({ timeout: 5_000 }).catch(() => undefined);
  }
  await expect(rows).toHaveCount(0);
  await expect.poll(clusterProcesses).toEqual([]);
});
