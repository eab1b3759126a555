import { expect, Locator, Page, test } from '@playwright/test';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { clusterProcesses, openLab, picture, runNotebook, setTheme, writeNotebook } from './lab';

// Each test continues where the previous one stopped.
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
inputs = keras.Input((64,), name="pixels")
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

test('a model is read from a file and drawn with its blocks', async () => {
  await openPlacement();
  await view.getByLabel(/^Path of a .keras file/).fill('digits.keras');
  await view.getByRole('button', { name: 'Read', exact: true }).click();
  await expect(view.getByRole('tree', { name: 'Layers of digits' })).toBeVisible();
  for (const name of ['stem', 'block', 'up', 'drop', 'down', 'join', 'logits']) {
    await expect(item(name)).toBeVisible();
  }
  const input = view.getByRole('treeitem', {
    name: 'pixels, input, 64 · float32, Sent to the devices of',
    exact: false
  });
  await expect(input).toHaveText('pixels· 64 · float32');
  await input.click(); // an input is not a layer, so it cannot be selected
  await expect(view.getByRole('complementary', { name: 'Selection' })).toContainText('Select layers by clicking');
  await item('logits').click();
  await expect(view.getByRole('complementary', { name: 'Selection' })).toContainText('Dense');
  await expect(view.getByRole('complementary', { name: 'Selection' })).toContainText('330'); // 32 x 10 weights, 10 biases
  await picture(page, 'placement-empty-light');
});

test('layers are dragged to devices with the mouse, and the step is predicted', async () => {
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
  await drag('block', 'worker:0'); // a block stands for all layers in it
  await item('join').click();
  await item('logits').click({ modifiers: ['Shift'] });
  await drag('logits', 'worker:1');
  await expect(view.getByText(/^predicted step/)).toBeVisible();
  await expect(device('worker:0')).toContainText('4 layers');
  await expect(device('worker:1')).toContainText('2 layers');
  await save();
  expect(saved().placement.devices).toEqual(Object.fromEntries(LAYERS.map((id, i) => [id, i < 4 ? ONE : TWO])));
  await expect(view.locator('.react-flow__edge.jp-dtf-cut')).toHaveCount(2); // one through the block and one around it
});

test('a reloaded page shows the saved placement, and a change can be undone', async () => {
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

test('layers can be placed and found with the keyboard alone', async () => {
  const tree = view.getByRole('tree');
  await tree.focus();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Home');
  const current = () => page.evaluate(() => document.activeElement?.getAttribute('aria-activedescendant') ?? '');
  await expect.poll(current).toMatch(/-%2Finput%2F0$/); // the model's input comes first
  await page.keyboard.press('ArrowDown');
  await expect.poll(current).toMatch(/-stem$/);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowLeft'); // collapses the block
  await expect(item('block')).toHaveAttribute('aria-expanded', 'false');
  await expect(item('up')).toHaveCount(0);
  await page.keyboard.press('d');
  await expect(view.getByRole('listbox', { name: 'Choose a device for the selection' })).toBeVisible();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('Enter');
  await expect(view.locator('.jp-dtf-said')).toHaveText('Put on worker:1 CPU:0: 3 layers');
  await expect(tree).toBeFocused();
  await expect(item('block')).toHaveAttribute('aria-label', /worker:1/);
  await page.keyboard.press('Enter'); // expands it
  await expect(item('up')).toHaveAttribute('aria-label', /worker:1/);
  await page.keyboard.press('Control+f');
  await page.keyboard.type('logits');
  await page.keyboard.press('Enter');
  await expect(item('logits')).toHaveAttribute('aria-selected', 'true');
  await view.getByLabel(/^Find layers/).fill('pixels');
  await page.keyboard.press('Enter');
  await expect(view.locator('.jp-dtf-input.jp-mod-current')).toHaveText('pixels· 64 · float32');
  await expect(view.getByText('1 of 1')).toBeVisible();
  await view.getByRole('button', { name: 'Fit View' }).click();
});

test('collapsed blocks are saved with the document', async () => {
  await item('block').click();
  await page.keyboard.press('ArrowLeft');
  await expect(item('up')).toHaveCount(0);
  await save();
  expect(saved().drawing).toEqual({ folded: ['block'] });
  await openPlacement();
  await expect(item('block')).toHaveAttribute('aria-expanded', 'false');
  await expect(item('up')).toHaveCount(0);
  await view.getByRole('tree').focus();
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown'); // the input and the stem come before the block
  await page.keyboard.press('ArrowRight');
  await expect(item('up')).toBeVisible();
  await save();
  expect(saved().drawing).toEqual({});
  await openPlacement(); // the whole graph is in view again
  await expect(item('logits')).toBeVisible();
});

test('the prediction follows when the number of microbatches is changed', async () => {
  // The text before may still be that of the previous placement, so each prediction is compared with the server's.
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

test('a layer is split over devices, and the split is undone', async () => {
  await item('stem').click();
  await view.getByRole('group', { name: 'Split its columns over' }).getByLabel('worker:1 CPU:0').check();
  await view.getByRole('button', { name: 'Split', exact: true }).click();
  await expect(item('stem')).toHaveAttribute('aria-label', /worker:0 CPU:0 \+ worker:1 CPU:0/);
  await save();
  expect(saved().placement.splits).toEqual({ stem: [ONE, TWO] });
  await view.getByRole('button', { name: 'Undo split' }).click();
  await expect(item('stem')).toHaveAttribute('aria-label', /worker:0 CPU:0$/);
});

test('a placed layer stays where it is when the rest is placed automatically', async () => {
  await view.getByRole('tree').focus();
  await page.keyboard.press('Control+a');
  await view.getByRole('button', { name: 'Unassign' }).click();
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

test('the toolbar is one line at every width, and a menu has the controls that do not fit', async () => {
  const bar = view.getByRole('toolbar', { name: 'Placement' });
  const more = bar.getByRole('button', { name: 'More controls' });
  const controls = bar.locator('.jp-dtf-overflow-bar > *');
  for (const width of [700, 900, 1280, 1440, 2400]) {
    await page.setViewportSize({ width, height: 900 });
    // In one snapshot of the page: is everything in one line, without overlap, within the bar?
    await expect
      .poll(() =>
        controls.evaluateAll(all => {
          const boxes = all.map(one => one.getBoundingClientRect());
          const host = all[0]!.parentElement!.getBoundingClientRect();
          const isLine = boxes.every(({ top, bottom }) => top < host.bottom && bottom > host.top) && host.height < 30;
          const isApart = boxes.every(({ left }, index) => index === 0 || left >= boxes[index - 1]!.right + 7);
          return isLine && isApart && boxes.at(-1)!.right <= host.right + 1;
        })
      )
      .toBe(true);
    await expect(bar.getByLabel(/^Find layers/)).toBeVisible();
  }
  await expect(more).toHaveCount(0);
  await page.setViewportSize({ width: 900, height: 900 });
  await more.focus();
  await page.keyboard.press('Enter');
  const list = bar.getByRole('group', { name: 'More controls' });
  await expect(list.locator(':focus')).toHaveCount(1);
  await list.getByRole('button', { name: 'Collapse all', exact: true }).focus();
  await page.keyboard.press('Enter');
  await expect(list).toHaveCount(0);
  await expect(more).toBeFocused();
  await expect(item('up')).toHaveCount(0);
  await page.keyboard.press('Enter');
  await list.getByRole('button', { name: 'Expand all' }).click();
  await expect(item('up')).toBeVisible();
  await more.click();
  await picture(page, 'placement-more-light');
  await page.keyboard.press('Escape');
  await expect(list).toHaveCount(0);
  await page.setViewportSize({ width: 1400, height: 900 });
  await view.getByRole('button', { name: 'Fit View' }).click();
});

test('screenshots in both themes and several widths', async () => {
  for (const dark of [false, true]) {
    await setTheme(page, dark);
    await expect(page.locator('#jupyterlab-splash')).toHaveCount(0);
    const theme = dark ? 'dark' : 'light';
    for (const colours of ['device', 'memory']) {
      await view.getByLabel('color by').selectOption(colours);
      await picture(page, `placement-${colours}-${theme}`);
    }
    await view.getByLabel('color by').selectOption('device');
    for (const width of [800, 900, 1280, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      await view.getByRole('button', { name: 'Fit View' }).click();
      await picture(page, `placement-${width}-${theme}`);
    }
    await page.setViewportSize({ width: 1400, height: 900 });
    await view.getByRole('button', { name: 'Fit View' }).click();
  }
  await setTheme(page, false);
});

test('a model from a kernel runs as drawn, and its actual placement is compared with the plan', async () => {
  await save();
  writeNotebook('train.ipynb', [
    `import jupyter_dtf as dtf, keras
from sklearn.datasets import load_digits
x, y = load_digits(return_X_y=True)
model = keras.models.load_model("digits.keras")
print("ready")`
  ]);
  const notebook = await runNotebook(page, 'train.ipynb');
  await expect(notebook.locator('.jp-OutputArea-output', { hasText: 'ready' })).toBeVisible();
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
  await expect(cell).not.toContainText('import jupyter_dtf'); // a cell above it does
  const placed = saved().placement.devices; // the code uses the saved file
  expect(Object.keys(placed).sort()).toEqual([...LAYERS].sort());
  expect(placed['block/up']).toBe(ONE);
  expect(new Set(Object.values(placed))).toEqual(new Set([ONE, TWO]));
  await cell.locator('.cm-content').click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('\ncluster.close()\nprint("trained")');
  await page.keyboard.press('Control+Enter');
  await expect(notebook.locator('.jp-OutputArea-output', { hasText: 'trained' })).toBeVisible();

  await page.getByRole('tab', { name: 'digits.dtf' }).click();
  await view.getByRole('button', { name: 'More controls' }).click(); // the list of runs does not fit in the bar
  await picture(page, 'placement-runs-light');
  await view.getByLabel('compare with').selectOption({ index: 1 });
  await page.keyboard.press('Escape');
  await expect(view.getByText('All 6 layers ran where they were planned')).toBeVisible();
  await expect(view.getByRole('row', { name: /^block\/up worker:0 CPU:0 worker:0 CPU:0/ })).toBeVisible();
  await expect(view.getByRole('img', { name: /^traced step/ })).toBeVisible();
  await expect(
    view.getByText(/^measured step .*: the median of 25 steps, half of them from .* · without the first 4/)
  ).toBeVisible();
  await picture(page, 'placement-compared-light');
  // The light screenshot with a width of 1,440 px is docs/images/designer.png.
  for (const dark of [false, true]) {
    await setTheme(page, dark);
    await expect(page.locator('#jupyterlab-splash')).toHaveCount(0);
    for (const width of [900, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      await view.getByRole('button', { name: 'Fit View' }).click();
      await picture(page, `placement-compared-${width}-${dark ? 'dark' : 'light'}`);
    }
  }
  await setTheme(page, false);
  await expect(page.locator('#jupyterlab-splash')).toHaveCount(0);
  await page.setViewportSize({ width: 1400, height: 900 });
  await view.getByRole('region', { name: 'Planned and actual places' }).scrollIntoViewIfNeeded();
  await picture(page, 'placement-compared-table-light');
  await item('block').click();
  await page.keyboard.press('d');
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await expect(view.getByText('The plan of this run differs from the drawing in 3 layers')).toBeVisible();
  await expect(
    view.getByRole('row', { name: /^block\/up worker:0 CPU:0 worker:0 CPU:0 ≠ worker:1 CPU:0/ })
  ).toBeVisible();
  await expect(item('up')).toContainText('≠ 1');
  await expect.poll(clusterProcesses).toEqual([]);
});
