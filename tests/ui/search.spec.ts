import { expect, Page, test } from '@playwright/test';

import { openLab, openPanel, picture, runNotebook, setTheme, writeNotebook, writePastRuns } from './lab';

// Each test continues where the previous one stopped.
test.describe.configure({ mode: 'serial' });

const TRIALS = 24;

let page: Page;

test.beforeAll(async ({ browser }) => {
  page = await browser.newPage();
});

test.afterAll(async () => {
  await page.close();
});

const view = () => page.locator('#jp-main-dock-panel .jp-MainAreaWidget .jp-dtf-search-view:visible');

async function pictures(name: string): Promise<void> {
  for (const width of [1440, 900]) {
    await page.setViewportSize({ width, height: 900 });
    for (const dark of [false, true]) {
      await setTheme(page, dark);
      await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
      await picture(page, `${name}-${width}-${dark ? 'dark' : 'light'}`);
    }
  }
  await setTheme(page, false);
  await page.setViewportSize({ width: 1400, height: 900 });
}

test('a search is shown in its cell, and as one row in the list of runs', async () => {
  writeNotebook('searched.ipynb', [
    'import jupyter_dtf as dtf\ncluster = dtf.Cluster(jobs={"worker": 2}, name="searched", threads_per_host=2)',
    `def train(params, ctx):
    import keras, time
    from sklearn.datasets import load_digits
    if params["units"] == 8 and params["rate"] > 0.03:
        raise ValueError("too fast for so few units")
    x, y = load_digits(return_X_y=True)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(params["units"], params["activation"]), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(params["rate"]), loss, metrics=["accuracy"])
    model.fit(x[:1000] / 16, y[:1000], epochs=6, validation_split=0.2, verbose=0)

space = {"units": [8, 16, 32, 64], "rate": (1e-4, 1e-1, "log"), "activation": ["relu", "tanh"]}
search = cluster.search(train, space, trials=${TRIALS}, objective="val_loss", pruner="median", sampler="random", seed=1, name="digits-search")`,
    'search.best.params'
  ]);
  const notebook = await runNotebook(page, 'searched.ipynb');
  const panel = await openPanel(page);
  // While the search runs, its cell has the live view, and the list of runs has one row.
  await expect(notebook.locator('.jp-dtf-search-view')).toBeVisible();
  await expect(notebook.locator('.jp-dtf-search-view')).toContainText('digits-search');
  await expect(panel.locator('.jp-dtf-search-row')).toHaveCount(1);
  await expect(panel.getByRole('button', { name: /Open the dashboard of digits-search/ })).toHaveCount(0);
  await panel.getByRole('button', { name: /Open the search digits-search/ }).click();
  await expect(view().locator('[data-trial]').first()).toBeVisible();
  await pictures('search-running');
  await expect(view().getByText(new RegExp(`${TRIALS}/${TRIALS} trials`))).toBeVisible();
  await expect(view().locator('.jp-dtf-header-state')).toContainText('ended');
  await expect(view().getByRole('row')).toHaveCount(TRIALS + 1);
  await expect(view().locator('.jp-mod-best')).toHaveCount(1);
  await panel.getByRole('button', { name: 'Expand the trials of digits-search' }).click();
  await expect(panel.getByRole('button', { name: /Open the dashboard of digits-search/ })).toHaveCount(TRIALS);
  await panel.getByRole('button', { name: 'Collapse the trials of digits-search' }).click();
});

test('its trials can be sorted, brushed and plotted', async () => {
  await view().getByRole('button', { name: 'val_loss', exact: false }).first().click();
  await expect(view().getByRole('columnheader', { name: /val_loss/ })).toHaveAttribute('aria-sort', 'ascending');
  await expect(view().locator('.jp-dtf-trials-rows [role=row]').first()).toHaveClass(/jp-mod-best/);
  await pictures('search-table');
  await view().getByRole('tab', { name: 'Parallel' }).click();
  // Drag over the upper half of a numeric axis.
  const axis = view().locator('[data-axis="parameter rate"] .jp-dtf-parallel-grab');
  const box = (await axis.boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + 8);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2, { steps: 4 });
  await page.mouse.up();
  await expect(view().getByText(new RegExp(`^\\d+ of ${TRIALS} trials are chosen$`))).toBeVisible();
  const said = await view()
    .getByText(/trials are chosen$/)
    .textContent();
  const chosen = Number(said!.split(' ')[0]);
  expect(chosen).toBeGreaterThan(0);
  expect(chosen).toBeLessThan(TRIALS);
  await pictures('search-parallel');
  await view().getByRole('tab', { name: 'Table' }).click();
  await expect(view().getByRole('row')).toHaveCount(chosen + 1);
  await view().getByRole('button', { name: 'Choose all' }).click();
  await expect(view().getByRole('row')).toHaveCount(TRIALS + 1);
  for (const tab of ['Importance', 'History', 'Devices']) {
    await view().getByRole('tab', { name: tab }).click();
    await pictures(`search-${tab.toLowerCase()}`);
  }
});

test('its cell shows the same trials', async () => {
  await page.getByRole('tab', { name: 'searched.ipynb' }).click();
  const output = page.locator('.jp-NotebookPanel:visible .jp-dtf-search-view');
  await output.scrollIntoViewIfNeeded();
  await expect(output.getByRole('row')).toHaveCount(TRIALS + 1);
  await pictures('search-notebook');
  await page.getByRole('tab', { name: 'digits-search' }).click();
});

test('a trial can be opened, and the search is still shown without the kernel', async () => {
  await view().getByRole('tab', { name: 'Table' }).click();
  await view()
    .locator('.jp-mod-best')
    .getByRole('button', { name: /Open the dashboard of trial/ })
    .click();
  await expect(
    page.locator('.jp-dtf-dashboard:visible').getByRole('heading', { name: /^digits-search \d+$/ })
  ).toBeVisible();
  await page.evaluate(async () => {
    const { jupyterapp } = window as unknown as {
      jupyterapp: { serviceManager: { sessions: { shutdownAll(): Promise<void> } } };
    };
    await jupyterapp.serviceManager.sessions.shutdownAll();
  });
  await page.reload();
  const panel = await openPanel(page);
  await panel.getByRole('button', { name: /Open the search digits-search/ }).click();
  await expect(view().getByRole('row')).toHaveCount(TRIALS + 1);
  await expect(view().locator('.jp-mod-best')).toHaveCount(1);
});

test('only a few of thousands of trials are in the page, and all can be scrolled to', async () => {
  const many = 2000;
  writePastRuns(
    Array.from({ length: many }, (_, number) => ({
      id: `many-${number}`,
      name: `many ${number}`,
      metrics: ['loss'],
      tasks: 1,
      points: 3 + (number % 7),
      age: 40_000 - number,
      parameters: { rate: 10 ** (-(number % 100) / 25), units: 2 ** (number % 6) },
      trial: {
        search: 'many',
        name: 'many',
        number,
        objectives: { loss: 'minimize' },
        parameters: ['rate', 'units'],
        logarithmic: ['rate'],
        most: many
      }
    }))
  );
  await openLab(page);
  const panel = await openPanel(page);
  await panel.getByRole('button', { name: /Open the search many/ }).click();
  await expect(view().getByRole('table')).toHaveAttribute('aria-rowcount', String(many + 1));
  await expect(view().locator('[data-trial="1999"]')).toBeVisible();
  expect(await view().locator('[data-trial]').count()).toBeLessThan(200);
  await view()
    .locator('.jp-dtf-tabpanel:visible')
    .evaluate(async scrolled => {
      const there = () => scrolled.querySelector('[data-trial="0"]') !== null;
      while (!there()) {
        scrolled.scrollTop = scrolled.scrollHeight;
        await new Promise(requestAnimationFrame);
      }
    });
  await expect(view().locator('[data-trial="0"]')).toBeVisible();
  expect(await view().locator('[data-trial]').count()).toBeLessThan(300);
});
