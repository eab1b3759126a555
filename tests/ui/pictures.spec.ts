import { expect, Page, test } from '@playwright/test';
import path from 'node:path';

import {
  closeCurrent,
  execute,
  openLab,
  openPanel,
  openRun,
  setTheme,
  writeNotebook,
  writeOtherVersion,
  writePastRuns
} from './lab';

// Each view is opened once, and a screenshot is taken in every theme and width.
test.describe.configure({ mode: 'serial' });

const PICTURES = path.join(__dirname, '../../artifacts/pictures');
const WIDTHS = { 1440: 900, 900: 900 };
const TRAINING = ['loss', 'val_loss', 'accuracy', 'val_accuracy', 'learning_rate', 'examples_per_second'];
const MACHINES = ['cpu', 'memory_bytes'];
const TRACEBACK = `Traceback (most recent call last):
  File "/home/ada/train.py", line 31, in <module>
    model.fit(x, y, epochs=5)
  File "/env/lib/python3.12/site-packages/keras/src/utils/traceback_utils.py", line 122, in error_handler
    raise e.with_traceback(filtered_tb) from None
ValueError: Arguments \`target\` and \`output\` must have the same rank (ndim).`;
const FAILURE =
  'worker:0: ValueError: Arguments `target` and `output` must have the same rank (ndim). Received: target.shape=(None, 1), output.shape=(None, 10, 10)';

let page: Page;

test.beforeAll(async ({ browser }) => {
  page = await browser.newPage();
});

test.afterAll(async () => {
  await page.close();
});

/** Returns whether plots have been drawn. Their canvases are in a shadow tree. */
const drawn = () => document.querySelectorAll('.jp-dtf-plot-area[role=slider] .bk-Figure').length > 2;

/** Takes a screenshot of the page in every theme and width. */
async function take(name: string): Promise<void> {
  for (const dark of [false, true]) {
    await setTheme(page, dark);
    for (const [width, height] of Object.entries(WIDTHS)) {
      await page.setViewportSize({ width: Number(width), height });
      await settled();
      await page.screenshot({ path: path.join(PICTURES, `${name}-${dark ? 'dark' : 'light'}-${width}.png`) });
    }
  }
  await setTheme(page, false);
  await page.setViewportSize({ width: 1440, height: 900 });
}

/** Waits until two screenshots are equal, so that plots are drawn and animations have ended. */
async function settled(): Promise<void> {
  await expect(async () => {
    const before = await page.screenshot();
    await page.waitForTimeout(200);
    expect((await page.screenshot()).equals(before)).toBe(true);
  })
    .toPass({ timeout: 5_000 })
    .catch(() => undefined); // a cluster's load never stops changing
}

async function tab(name: string): Promise<void> {
  await page
    .locator('.jp-dtf-dashboard:visible')
    .getByRole('tab', { name: new RegExp(`^${name}`) })
    .click();
}

test('an empty panel', async () => {
  await openLab(page);
  const panel = await openPanel(page);
  await expect(panel.getByRole('button', { name: 'Start two local workers' })).toBeVisible();
  await take('panel-empty');
});

test('other versions', async () => {
  await openLab(page);
  const panel = await openPanel(page);
  const forget = writeOtherVersion('newer');
  try {
    const row = panel.getByRole('listitem', { name: 'Cluster newer' });
    await expect(row.getByText('another version')).toBeVisible();
    await take('panel-incompatible');
  } finally {
    forget();
  }
  await page.route('**/jupyter-dtf/api/status*', async route => {
    const response = await route.fetch();
    const status = (await response.json()) as object;
    await route.fulfill({ response, json: { ...status, version: '9.0.0', protocol: 9, oldest: 8 } });
  });
  await page.reload();
  await expect((await openPanel(page)).getByRole('button', { name: 'Reload the page' })).toBeVisible();
  await take('panel-foreign');
  await page.unroute('**/jupyter-dtf/api/status*');
});

test('clusters and runs', async () => {
  writePastRuns([
    {
      id: 'two',
      name: 'mnist-cnn',
      metrics: [...TRAINING, ...MACHINES],
      tasks: 2,
      points: 120,
      age: 150,
      notes: 7,
      strategy: 'allreduce',
      parameters: { batch_size: 64, epochs: 5, optimizer: 'Adam' }
    },
    {
      id: 'eight',
      name: 'resnet-imagenet',
      metrics: [...TRAINING, ...MACHINES],
      tasks: 8,
      points: 120,
      age: 4000,
      strategy: 'allreduce'
    },
    {
      id: 'failed',
      name: 'resnet-ps',
      metrics: [],
      tasks: 2,
      points: 3,
      age: 5000,
      state: 'failed',
      message: FAILURE,
      traceback: TRACEBACK,
      strategy: 'ps'
    },
    {
      id: 'late',
      name: 'resnet-ps',
      metrics: TRAINING,
      tasks: 2,
      points: 60,
      age: 90000,
      state: 'failed',
      message: 'worker:0 died (SIGKILL, out of memory)',
      strategy: 'ps'
    },
    {
      id: 'stopped',
      name: 'a-run-with-a-name-that-is-longer-than-the-panel',
      metrics: ['loss'],
      tasks: 1,
      points: 40,
      age: 200000,
      state: 'stopped'
    },
    {
      id: 'recovered',
      name: 'bert-base',
      metrics: [...TRAINING, ...MACHINES],
      tasks: 3,
      points: 240,
      age: 300,
      strategy: 'allreduce',
      checkpoint: 4,
      lost: { step: 150, from: 120, task: 'worker:1' },
      slow: { step: 60, until: 90, task: 'worker:2' }
    },
    { id: 'silent', name: 'preprocess', metrics: [], tasks: 4, points: 9, age: 400000 },
    {
      id: 'many',
      name: 'ablation',
      metrics: [
        ...TRAINING,
        ...Array.from({ length: 200 }, (_, i) => `layer_${i >> 1}/${i % 2 ? 'norm' : 'gradient'}`)
      ],
      tasks: 2,
      points: 80,
      age: 40000000
    }
  ]);
  await openLab(page);
  const panel = await openPanel(page);
  await panel.getByRole('button', { name: 'Start two local workers' }).click();
  await expect(panel.getByText('cpu').first()).toBeVisible();
  await take('panel');
});

test('a run of two tasks', async () => {
  await openRun(page, 'two', drawn);
  await take('metrics-2-tasks');
  await page.locator('.jp-dtf-plot-area').first().hover();
  await take('metrics-pointed-at');
  for (const name of ['Machines', 'Timeline', 'Output', 'Events']) {
    await tab(name);
    await take(`dashboard-${name.toLowerCase()}`);
  }
  await closeCurrent(page);
});

test('a run that lost a task', async () => {
  await openRun(page, 'recovered', drawn);
  await take('recovered');
  const area = page.locator('.jp-dtf-plot-area').first();
  const box = (await area.boundingBox())!;
  await area.hover({ position: { x: 74 + ((box.width - 82) * 150) / 240, y: 60 } });
  await take('recovered-pointed-at');
  await tab('Events');
  await take('recovered-events');
  await tab('Machines');
  await take('recovered-machines');
  await closeCurrent(page);
});

test('a run of eight tasks', async () => {
  await openRun(page, 'eight', drawn);
  await take('metrics-8-tasks');
  const tasks = page.locator('.jp-dtf-dashboard:visible').getByLabel('tasks');
  await tasks.selectOption('each');
  await take('metrics-8-lines');
  await tasks.selectOption('split');
  await take('metrics-8-plots');
  await tab('Machines');
  await take('machines-8-tasks');
  await closeCurrent(page);
});

test('runs with many metrics, without metrics, and failed runs', async () => {
  await openRun(page, 'many', drawn);
  await take('metrics-200');
  await closeCurrent(page);
  for (const run of ['failed', 'late', 'silent']) {
    await openRun(page, run, () => document.querySelector('.jp-dtf-dashboard .jp-dtf-tabs') !== null);
    await take(`run-${run}`);
    await closeCurrent(page);
  }
});

test('dialogs', async () => {
  await openPanel(page);
  await execute(page, 'jupyter-dtf:new-cluster');
  await expect(page.getByRole('dialog').getByText('localhost:0').first()).toBeVisible();
  await take('new-cluster');
  await page.keyboard.press('Escape');
  await execute(page, 'jupyter-dtf:scale-cluster', { name: 'local-1' });
  await expect(page.getByRole('dialog')).toBeVisible();
  await take('scale');
  await page.keyboard.press('Escape');
});

test('in a notebook', async () => {
  writeNotebook(
    'outputs.ipynb',
    ['run.show()', 'broken', 'cluster', 'run'],
    [
      { 'application/vnd.jupyter-dtf.run+json': { run: 'two' } },
      { 'application/vnd.jupyter-dtf.run+json': { run: 'failed' } },
      { 'application/vnd.jupyter-dtf.cluster+json': { name: 'local-1' } },
      { 'application/vnd.jupyter-dtf.run-card+json': { run: 'two' } }
    ]
  );
  await openLab(page, 'outputs.ipynb');
  await expect(page.locator('.jp-OutputArea-output .jp-dtf-plot canvas').first()).toBeVisible();
  await take('notebook');
  await settled(); // the notebook measures its cells again
  await page.mouse.move(700, 500);
  await page.mouse.wheel(0, 3000); // as a person does: the notebook renders cells when they come into view
  await take('notebook-end');
});

test('a design', async () => {
  await execute(page, 'jupyter-dtf:new-design');
  await expect(page.locator('.jp-dtf-designer:visible').first()).toBeVisible();
  await take('designer-cluster');
  await page.locator('.jp-dtf-designer:visible').first().getByRole('tab', { name: 'Placement' }).click();
  await take('designer-placement');
  const panel = await openPanel(page);
  await panel.getByRole('button', { name: 'Stop local-1', exact: true }).click();
  await expect(panel.getByRole('listitem', { name: 'Cluster local-1' })).toHaveCount(0);
});
