import { expect, Page, test } from '@playwright/test';
import { writeFileSync } from 'node:fs';
import path from 'node:path';

import { expectAccessible } from './axe';
import { closeCurrent, execute, openLab, openPanel, openRun, writeNotebook, writePastRuns } from './lab';

// Checks the accessibility of every view in both themes, with as many elements as possible. One test covers all views,
// and continues after violations.
const TRAINING = ['loss', 'val_loss', 'accuracy', 'learning_rate', 'examples_per_second'];
const CODE = ['import keras', 'rate = 0.1', 'cluster.fit(model, x, y, batch_size=64)'];
const LAYERS = ['stem', 'block/up', 'block/down', 'logits'];
const on = (task: number) => `/job:worker/task:${task}/device:CPU:0`;

let page: Page;

/** Returns a design with every kind of element. Designs differ in their batch size. */
function design(batch: number): string {
  const layer = (id: string) => ({ id, kind: 'Dense', parameters: 330, parameter_bytes: 1320, flops: 660 });
  const edges = LAYERS.slice(1).map((target, index) => ({ source: LAYERS[index], target, bytes: 128 }));
  return JSON.stringify({
    version: 1,
    cluster: {
      jobs: { worker: 2, ps: 1 },
      hosts: [
        { name: 'node-a', cpus: 16, memory_bytes: 2 ** 36, gpus: [2 ** 34] },
        { name: 'node-b', cpus: 16, memory_bytes: 2 ** 36 }
      ],
      tasks: [{ job: 'worker', index: 0, host: 'node-a', device: 'CPU' }]
    },
    model: { graph: { model: 'digits', layers: LAYERS.map(layer), edges, inputs: [] } },
    placement: { devices: Object.fromEntries(LAYERS.map((id, index) => [id, on(Math.floor(index / 2))])) },
    run: { batch_size: batch }
  });
}

test.beforeAll(async ({ browser }) => {
  const common = { metrics: TRAINING, tasks: 3, points: 60, epoch: 20, strategy: 'allreduce' };
  const origin = { commit: 'a1b2c3d4'.repeat(5), branch: 'main', versions: { TensorFlow: '2.21.0', Keras: '3.15.1' } };
  writePastRuns([
    {
      ...common,
      id: 'full',
      name: 'mnist-cnn',
      metrics: [...TRAINING, 'cpu', 'memory_bytes'],
      age: 300,
      shows: true,
      notes: 4,
      checkpoint: 10,
      lost: { step: 40, from: 30, task: 'worker:1' },
      slow: { step: 10, until: 20, task: 'worker:2' },
      nan: { metric: 'loss', step: 50, task: 'worker:1' },
      parameters: { batch_size: 64 },
      code: CODE.join('\n'),
      design: design(64),
      origin
    },
    {
      ...common,
      id: 'other',
      name: 'mnist-cnn 2',
      age: 200,
      parameters: { batch_size: 128 },
      code: CODE.join('\n').replace('0.1', '0.25'),
      design: design(128),
      origin: { ...origin, versions: { TensorFlow: '2.20.0', Keras: '3.15.1' } }
    },
    {
      id: 'failed',
      name: 'resnet-ps',
      metrics: [],
      tasks: 2,
      points: 3,
      age: 5000,
      state: 'failed',
      message: 'worker:0: ValueError: no',
      traceback: 'Traceback (most recent call last):\n  File "train.py", line 31, in <module>\nValueError: no'
    },
    ...Array.from({ length: 8 }, (_, number) => ({
      id: `trial-${number}`,
      name: `tuned ${number}`,
      metrics: ['loss'],
      tasks: 1,
      points: 4 + number,
      age: 40_000 - number,
      parameters: { rate: 10 ** -number, units: 8 * (number + 1) },
      trial: {
        search: 'tuned',
        name: 'tuned',
        number,
        objectives: { loss: 'minimize' },
        parameters: ['rate', 'units'],
        logarithmic: ['rate'],
        most: 8
      }
    }))
  ]);
  writeFileSync(path.join(process.env.DTF_UI_DIRECTORY ?? '', 'root', 'all.dtf'), design(64));
  page = await browser.newPage();
});

test.afterAll(async () => {
  await page.close();
});

const dashboard = () => page.locator('.jp-dtf-dashboard:visible');

test('all views are accessible', async () => {
  await test.step('the panel, and its form', async () => {
    await openLab(page);
    const panel = await openPanel(page);
    await expect(panel.getByText('mnist-cnn').first()).toBeVisible();
    await panel.getByRole('button', { name: 'Start two local workers' }).click();
    await expect(panel.getByText('cpu').first()).toBeVisible();
    await expectAccessible(page, 'panel', panel);
    await execute(page, 'jupyter-dtf:new-cluster');
    const dialog = page.getByRole('dialog');
    await expect(dialog.getByText('localhost:0').first()).toBeVisible();
    await dialog.getByLabel('Name', { exact: false }).first().fill('Not A Name');
    await expectAccessible(page, 'new cluster', page.locator('.jp-dtf-dialog'));
    await page.keyboard.press('Escape');
    await panel.getByRole('button', { name: 'Stop local-1', exact: true }).click();
    await expect(panel.getByRole('listitem', { name: 'Cluster local-1' })).toHaveCount(0);
  });

  await test.step('the tour, by keyboard', async () => {
    await execute(page, 'jupyter-dtf:take-tour');
    for (const title of ['Start a cluster', 'Fit a model', 'Watch the run', 'Draw a design']) {
      const step = page.getByRole('dialog', { name: title });
      await expect(step).toBeFocused();
      await expect(page.locator('.jp-dtf-tour-mark')).toBeVisible();
      await step.getByRole('button', { name: 'Next' }).press('Enter');
    }
    await expectAccessible(page, 'tour', page.getByRole('dialog', { name: 'Stop' }));
    await page.getByRole('dialog', { name: 'Stop' }).press('Escape');
    await expect(page.getByRole('dialog')).toHaveCount(0);
  });

  await test.step("a run's dashboard, tab by tab", async () => {
    const drawn = () => document.querySelectorAll('.jp-dtf-plot-area[role=slider] .bk-Figure').length > 2;
    await openRun(page, 'full', drawn);
    await expectAccessible(page, 'metrics', dashboard());
    for (const tab of ['Histograms', 'Machines', 'Timeline', 'Output', 'Events', 'Code']) {
      await dashboard()
        .getByRole('tab', { name: new RegExp(`^${tab}`) })
        .click();
      const panel = dashboard().getByRole('tabpanel', { name: new RegExp(`^${tab}`) });
      await expect(panel).not.toBeEmpty();
      await expectAccessible(page, tab, dashboard());
    }
    await closeCurrent(page);
    await openRun(page, 'failed', () => document.querySelector('.jp-dtf-dashboard .jp-dtf-tabs') !== null);
    await expectAccessible(page, 'a run that failed', dashboard());
    await closeCurrent(page);
  });

  await test.step('all runs, grouped and compared', async () => {
    await execute(page, 'jupyter-dtf:open-history');
    const view = page.locator('.jp-dtf-history-pane:visible');
    await view.getByRole('searchbox', { name: 'Find runs by words or conditions' }).fill('mnist-cnn');
    await view.getByLabel('Group by').selectOption('strategy');
    await view.getByRole('button', { name: /^allreduce/ }).click();
    await view.getByLabel('Compare mnist-cnn', { exact: true }).check();
    await view.getByLabel('Compare mnist-cnn 2', { exact: true }).check();
    const compared = view.getByRole('region', { name: 'Comparison' });
    await expect(compared.locator('.bk-Figure').first()).toBeVisible();
    await expectAccessible(page, 'all runs', view);
    for (const tab of ['Parameters', 'Code', 'Designs']) {
      await compared.getByRole('tab', { name: tab }).click();
      await expect(compared.getByRole('tabpanel', { name: tab }).getByRole('table').first()).toBeVisible();
      await compared.getByRole('tabpanel', { name: tab }).getByLabel('Differences only').uncheck();
      await expectAccessible(page, `comparison, ${tab}`, compared);
    }
    await compared.getByRole('tab', { name: 'Plots' }).click();
    await compared.getByRole('button', { name: 'Save as dashboard file' }).click();
    const dashboardFile = page.locator('.jp-dtf-runs-dashboard:visible');
    await expect(dashboardFile.locator('.bk-Figure').first()).toBeVisible();
    await expectAccessible(page, 'a dashboard file', dashboardFile);
    await closeCurrent(page);
    await closeCurrent(page);
  });

  await test.step('a search, tab by tab', async () => {
    await execute(page, 'jupyter-dtf:open-search', { search: 'tuned' });
    const view = page.locator('.jp-dtf-search-view:visible');
    await view.locator('[data-trial]').first().click();
    for (const tab of ['Table', 'Parallel', 'Importance', 'History', 'Devices']) {
      await view.getByRole('tab', { name: tab }).click();
      await expect(view.getByRole('tabpanel', { name: tab })).not.toBeEmpty();
      await expectAccessible(page, `search, ${tab}`, view);
    }
    await closeCurrent(page);
  });

  await test.step('both tabs of the designer', async () => {
    await execute(page, 'docmanager:open', { path: 'all.dtf' });
    const view = page.locator('.jp-dtf-designer:visible').first();
    await view.locator('[data-what="worker:0"]').click();
    await expect(view.getByLabel('TF_CONFIG', { exact: true })).toContainText('"index": 0');
    await expectAccessible(page, 'designer, cluster', view);
    await view.getByRole('tab', { name: 'Placement' }).click();
    await expect(view.getByRole('tabpanel', { name: 'Placement' }).getByText(/^predicted step/)).toBeVisible();
    await view.getByRole('treeitem', { name: /^logits,/ }).click();
    await expectAccessible(page, 'designer, placement', view);
    await closeCurrent(page);
  });

  await test.step("a notebook's outputs", async () => {
    writeNotebook(
      'accessible.ipynb',
      ['run.show()', 'run', 'search'],
      [
        { 'application/vnd.jupyter-dtf.run+json': { run: 'full' } },
        { 'application/vnd.jupyter-dtf.run-card+json': { run: 'other' } },
        {}
      ]
    );
    await execute(page, 'docmanager:open', { path: 'accessible.ipynb' });
    const outputs = page.locator('.jp-NotebookPanel:visible .jp-OutputArea-output');
    await expect(outputs.locator('.jp-dtf-plot canvas').first()).toBeVisible();
    await expectAccessible(page, 'notebook', outputs);
  });
});
