import { expect, Locator, Page, test } from '@playwright/test';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { clusterProcesses, openLab, picture, runNotebook, setTheme, writeNotebook } from './lab';

// One story: each test goes on where the one before it stopped.
test.describe.configure({ mode: 'serial' });

const ONE = '/job:worker/task:0/device:CPU:0';
const TWO = '/job:worker/task:1/device:CPU:0';
const LAYERS = ['stem', 'block/up', 'block/drop', 'block/down', 'join', 'logits'];

let page: Page;
let view: Locator;

const fileOf = (name: string) => path.join(process.env.DTF_UI_DIRECTORY ?? '', 'root', name);
const saved = () => JSON.parse(readFileSync(fileOf('digits.dtf'), 'utf8'));
const item = (name: string) => view.getByRole('treeitem', { name: new RegExp(`^${name},`) });
const device = (name: string) => view.getByRole('option', { name: new RegExp(`^${name} `) });

async function save(): Promise<void> {
  await page.keyboard.press('Control+s');
  await expect(page.locator('.jp-mod-current.jp-mod-dirty')).toHaveCount(0);
}

async function openPlacement(): Promise<void> {
  await openLab(page, 'digits.dtf');
  await page.locator('.jp-dtf-designer:visible').getByRole('tab', { name: 'Placement' }).click();
  view = page.locator('.jp-dtf-placement:visible');
}

test.beforeAll(async ({ browser }) => {
  writeFileSync(fileOf('digits.dtf'), JSON.stringify({ version: 1, cluster: { jobs: { worker: 2 } } }));
  const program = `
import keras
from keras import layers
inputs = keras.Input((64,))
stem = layers.Dense(32, activation="relu", name="stem")(inputs)
inner = keras.Input((32,))
x = layers.Dense(64, activation="relu", name="up")(inner)
x = layers.Dropout(0.1, name="drop")(x)
block = keras.Model(inner, layers.Dense(32, name="down")(x), name="block")
outputs = layers.Dense(10, name="logits")(layers.Add(name="join")([stem, block(stem)]))
model = keras.Model(inputs, outputs, name="digits")
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.save("digits.keras")
`;
  execFileSync('python', ['-c', program], { cwd: path.dirname(fileOf('digits.dtf')) });
  page = await browser.newPage();
});

test.afterAll(async () => {
  await page.close();
});

test('a model is read from a file and drawn in its blocks', async () => {
  await openPlacement();
  await view.getByLabel(/^Path of a .keras file/).fill('digits.keras');
  await view.getByRole('button', { name: 'Read', exact: true }).click();
  await expect(view.getByRole('tree', { name: 'Layers of digits' })).toBeVisible({ timeout: 60_000 });
  for (const name of ['stem', 'block', 'up', 'drop', 'down', 'join', 'logits']) {
    await expect(item(name)).toBeVisible();
  }
  await item('logits').click();
  await expect(view.getByRole('complementary', { name: 'Selection' })).toContainText('Dense');
  await expect(view.getByRole('complementary', { name: 'Selection' })).toContainText('330'); // 32 x 10 weights, 10 biases
  await picture(page, 'placement-empty-light');
});

test('layers are dropped on devices with the mouse, and the step is predicted', async () => {
  const drag = async (name: string, to: string) => {
    const from = (await item(name).boundingBox())!;
    const target = (await device(to).boundingBox())!;
    await page.mouse.move(from.x + 20, from.y + 8);
    await page.mouse.down();
    await page.mouse.move(from.x + 40, from.y - 20);
    await page.mouse.move(target.x + 30, target.y + 12);
    await expect(device(to)).toHaveClass(/jp-mod-target/);
    await page.mouse.up();
  };
  await item('stem').click();
  await drag('stem', 'worker:0');
  await drag('block', 'worker:0'); // a block is all that is in it
  await item('join').click();
  await item('logits').click({ modifiers: ['Shift'] });
  await drag('logits', 'worker:1');
  await expect(view.getByText(/^predicted step/)).toBeVisible();
  await expect(device('worker:0')).toContainText('4 layers');
  await expect(device('worker:1')).toContainText('2 layers');
  await save();
  expect(saved().placement.devices).toEqual(Object.fromEntries(LAYERS.map((id, i) => [id, i < 4 ? ONE : TWO])));
  await expect(view.locator('.react-flow__edge.jp-dtf-cut')).toHaveCount(2); // the block's way and the one around it
});

test('a reloaded page shows what was saved; undo goes back to the beginning', async () => {
  await openPlacement();
  await expect(item('stem')).toHaveAttribute('aria-label', /worker:0/);
  await expect(item('logits')).toHaveAttribute('aria-label', /worker:1/);
  await view.getByRole('tree').focus();
  await page.keyboard.press('Control+a');
  await page.keyboard.press('d');
  await page.keyboard.press('Enter');
  await expect(item('logits')).toHaveAttribute('aria-label', /worker:0/);
  await page.keyboard.press('Control+z');
  await expect(item('logits')).toHaveAttribute('aria-label', /worker:1/);
});

test('the same is done from the keyboard alone', async () => {
  const tree = view.getByRole('tree');
  await tree.focus();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Home');
  const current = () => page.evaluate(() => document.activeElement?.getAttribute('aria-activedescendant') ?? '');
  await expect.poll(current).toMatch(/-stem$/);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowLeft'); // folds the block
  await expect(item('block')).toHaveAttribute('aria-expanded', 'false');
  await expect(item('up')).toHaveCount(0);
  await page.keyboard.press('d');
  await expect(view.getByRole('listbox', { name: 'Choose a device for what is selected' })).toBeVisible();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await expect(view.locator('.jp-dtf-said')).toHaveText('Put on worker:1 CPU:0: 3 layers');
  await expect(tree).toBeFocused();
  await expect(item('block')).toHaveAttribute('aria-label', /worker:1/);
  await page.keyboard.press('Enter'); // unfolds it
  await expect(item('up')).toHaveAttribute('aria-label', /worker:1/);
  await page.keyboard.press('Control+f');
  await page.keyboard.type('logits');
  await page.keyboard.press('Enter');
  await expect(item('logits')).toHaveAttribute('aria-selected', 'true');
  await view.getByRole('button', { name: 'Fit View' }).click();
});

test('the numbers of a step are changed, and its prediction follows', async () => {
  // What is shown before is perhaps still that of the last placement: each prediction is held against the server's.
  const predicted = async (count: number, edit: () => Promise<void>): Promise<number> => {
    const isAsked = new RegExp(`microbatches\\\\?": ?${count}\\b`);
    const [answer] = await Promise.all([
      page.waitForResponse(r => r.url().includes('/designs/check') && isAsked.test(r.request().postData() ?? '')),
      edit()
    ]);
    const seconds = (await answer.json()).prediction.step_seconds as number;
    await expect(view.getByText(/^predicted step/)).toContainText(`step ${Number((seconds * 1e6).toPrecision(3))} µs`);
    return seconds;
  };
  const microbatches = view.getByLabel('microbatches');
  await expect(microbatches).toHaveValue('8');
  const four = await predicted(4, async () => {
    await microbatches.focus();
    await page.keyboard.press('Control+a');
    await page.keyboard.type('4');
    await page.keyboard.press('Enter');
  });
  await save();
  expect(saved().run).toEqual({ batch_size: 64, microbatches: 4, replicas: 1, epochs: 1 });
  const eight = await predicted(8, async () => {
    await view.getByRole('tree').focus();
    await page.keyboard.press('Control+z');
  });
  await expect(microbatches).toHaveValue('8');
  expect(four).not.toBe(eight);
});

test('a layer is split over devices, and made whole again', async () => {
  await item('stem').click();
  await view.getByRole('group', { name: 'Split its columns over' }).getByLabel('worker:1 CPU:0').check();
  await view.getByRole('button', { name: 'Split', exact: true }).click();
  await expect(item('stem')).toHaveAttribute('aria-label', /worker:0 CPU:0 \+ worker:1 CPU:0/);
  await save();
  expect(saved().placement.splits).toEqual({ stem: [ONE, TWO] });
  await view.getByRole('button', { name: 'Make whole' }).click();
  await expect(item('stem')).toHaveAttribute('aria-label', /worker:0 CPU:0$/);
});

test('what is pinned stays when the rest is placed automatically', async () => {
  await view.getByRole('tree').focus();
  await page.keyboard.press('Control+a');
  await view.getByRole('button', { name: 'Take off' }).click();
  await expect(item('stem')).toHaveAttribute('aria-label', /not placed/);
  await item('stem').click();
  await page.keyboard.press('d');
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await expect(item('stem')).toHaveAttribute('aria-label', /worker:1/);
  const place = view.getByRole('button', { name: 'Place automatically' });
  await place.focus();
  await page.keyboard.press('Enter');
  await expect(item('logits')).toHaveAttribute('aria-label', /worker:/);
  await expect(item('stem')).toHaveAttribute('aria-label', /worker:1/);
  await expect(place).toBeFocused();
  await page.keyboard.press('Control+z');
  await expect(item('logits')).toHaveAttribute('aria-label', /not placed/);
  await page.keyboard.press('Control+Shift+z');
  await expect(item('logits')).toHaveAttribute('aria-label', /worker:/);
});

test('it looks right in every theme and width', async () => {
  for (const dark of [false, true]) {
    await setTheme(page, dark);
    await expect(page.locator('#jupyterlab-splash')).toHaveCount(0);
    const theme = dark ? 'dark' : 'light';
    for (const colours of ['device', 'memory']) {
      await view.getByLabel('colour by').selectOption(colours);
      await picture(page, `placement-${colours}-${theme}`);
    }
    await view.getByLabel('colour by').selectOption('device');
    await page.setViewportSize({ width: 800, height: 900 });
    await view.getByRole('button', { name: 'Fit View' }).click();
    await picture(page, `placement-narrow-${theme}`);
    await page.setViewportSize({ width: 1400, height: 900 });
    await view.getByRole('button', { name: 'Fit View' }).click();
  }
  await setTheme(page, false);
});

test('a model comes from a kernel, runs as it is drawn, and planned equals actual', async () => {
  await save();
  writeNotebook('train.ipynb', [
    `import jupyter_dtf as dtf, keras
from sklearn.datasets import load_digits
x, y = load_digits(return_X_y=True)
model = keras.models.load_model("digits.keras")
print("ready")`
  ]);
  const notebook = await runNotebook(page, 'train.ipynb');
  await expect(notebook.locator('.jp-OutputArea-output', { hasText: 'ready' })).toBeVisible({ timeout: 60_000 });
  await page.getByRole('listitem', { name: /digits\.dtf/ }).dblclick();
  await page.locator('.jp-dtf-designer:visible').getByRole('tab', { name: 'Placement' }).click();
  view = page.locator('.jp-dtf-placement:visible');
  await view.getByTitle('Choose another model').click();
  await view.getByRole('button', { name: 'model', exact: true }).click();
  await expect(view.getByTitle('Choose another model')).toHaveText('model of train.ipynb');
  await item('block').click();
  await page.keyboard.press('d');
  await page.keyboard.press('Home');
  await page.keyboard.press('Enter');
  await expect(item('block')).toHaveAttribute('aria-label', /worker:0/);
  await view.getByRole('button', { name: 'Run in notebook' }).click();
  const cell = notebook.locator('.jp-Cell.jp-mod-active');
  await expect(cell).toContainText('strategy=dtf.Pipeline("digits.dtf", microbatches=8)');
  await expect(cell).toContainText('cluster = dtf.Cluster(design="digits.dtf", name="digits")');
  await expect(cell).not.toContainText('import jupyter_dtf'); // a cell above does
  const placed = saved().placement.devices; // the code trains what is in the file
  expect(Object.keys(placed).sort()).toEqual([...LAYERS].sort());
  expect(placed['block/up']).toBe(ONE);
  expect(new Set(Object.values(placed))).toEqual(new Set([ONE, TWO]));
  await cell.locator('.cm-content').click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('\ncluster.close()\nprint("trained")');
  await page.keyboard.press('Control+Enter');
  await expect(notebook.locator('.jp-OutputArea-output', { hasText: 'trained' })).toBeVisible({ timeout: 90_000 });

  await page.getByRole('tab', { name: 'digits.dtf' }).click();
  await view.getByLabel('compare with').selectOption({ index: 1 });
  await expect(view.getByText('All 6 layers ran where they were planned')).toBeVisible();
  await expect(view.getByRole('row', { name: /^block\/up worker:0 CPU:0 worker:0 CPU:0/ })).toBeVisible();
  await expect(view.getByRole('img', { name: /^measured step/ })).toBeVisible();
  await picture(page, 'placement-compared-light');
  await item('block').click();
  await page.keyboard.press('d');
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await expect(view.getByText('This run was planned otherwise than the drawing: 3 layers')).toBeVisible();
  await expect(
    view.getByRole('row', { name: /^block\/up worker:0 CPU:0 worker:0 CPU:0 ≠ worker:1 CPU:0/ })
  ).toBeVisible();
  await expect(item('up')).toContainText('≠ 1');
  await expect.poll(clusterProcesses, { timeout: 30_000 }).toEqual([]);
});
