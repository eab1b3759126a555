import { expect, Locator, Page, test } from '@playwright/test';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { openLab, openPanel, picture, setTheme } from './lab';

// Each test continues where the previous one stopped.
test.describe.configure({ mode: 'serial' });

const ROOT = path.join(process.env.DTF_UI_DIRECTORY ?? '', 'root');

let page: Page;

/** The tab of the current document, if the document has this name. */
const current = (name: string) =>
  page.locator('#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current', { hasText: new RegExp(`^${name}$`) });
/** The visible designer. */
const designer = () => page.locator('.jp-dtf-designer:visible').first();
const slot = (host: string, device: string) =>
  designer().locator(`[data-host="${host}"][data-device-name="${device}"]`);
const chip = (what: string) => designer().locator(`[data-what="${what}"]`);
const onDisk = (name: string) => readFileSync(path.join(ROOT, name), 'utf8');

async function open(name: string): Promise<Locator> {
  await openLab(page, name);
  // Until then, the previous document may still be the current one.
  await expect(current(name)).toBeVisible();
  await expect(designer()).toBeVisible();
  return designer();
}

/** Saves with the keyboard shortcut, and waits until the document is not marked as unsaved. */
async function save(): Promise<void> {
  await page.keyboard.press('Control+s');
  await expect(page.locator('#jp-main-dock-panel .lm-TabBar-tab.lm-mod-current.jp-mod-dirty')).toHaveCount(0);
}

async function fill(label: string, value: string): Promise<void> {
  const field = designer().getByLabel(label, { exact: true });
  await field.fill(value);
  await field.press('Enter');
}

test.beforeAll(async ({ browser }) => {
  page = await browser.newPage();
  // Simulates another user's file, because the user of the tests may write every file.
  await page.route('**/api/contents/locked.dtf*', async route => {
    const response = await route.fetch();
    const body = (await response.json()) as object;
    await route.fulfill({ response, json: { ...body, writable: false } });
  });
});

test.afterAll(async () => {
  await page.close();
});

test('a design is created from the panel and edited with the mouse', async () => {
  await openLab(page);
  const panel = await openPanel(page);
  await panel.getByRole('button', { name: 'New design' }).click();
  await expect(designer().getByText('No hosts are drawn')).toBeVisible();
  for (const [name, memory, gpus] of [
    ['node-a', '64', 2],
    ['node-b', '32', 1]
  ] as const) {
    await designer().getByRole('button', { name: 'Add a host' }).click();
    await fill('Cores', '16');
    await fill('Memory', memory);
    for (let gpu = 0; gpu < gpus; gpu++) {
      await designer().getByRole('button', { name: 'Add a GPU' }).click();
      await fill(`Memory of GPU ${gpu}`, '24');
    }
    await fill('Name', name);
  }
  await designer().getByRole('button', { name: 'Add a job' }).click();
  await fill('Tasks of worker', '4');
  await chip('worker:0').dragTo(slot('node-b', 'GPU:0'));
  await expect(slot('node-b', 'GPU:0').locator('[data-what="worker:0"]')).toBeVisible();
  await chip('worker:1').dragTo(slot('node-b', 'GPU:0'));
  await chip('worker:1').click();
  await fill('Memory cap', '8');
  await designer().getByRole('button', { name: 'Distribute ps over the devices' }).click();
  await expect(slot('node-a', 'CPU').locator('[data-what="ps:0"]')).toBeVisible();
  await chip('worker:0').click();
  await expect(designer().getByText('/job:worker/task:0/device:GPU:0').first()).toBeVisible();
  await expect(designer().getByLabel('TF_CONFIG', { exact: true })).toContainText('"index": 0');
  await picture(page, 'designer-cluster-drawn-light');
});

test('it is saved, and restored after a reload', async () => {
  await save();
  const text = onDisk('untitled.dtf');
  const { cluster } = JSON.parse(text) as { cluster: { tasks: object[]; hosts: { name: string }[] } };
  expect(cluster.hosts.map(({ name }) => name)).toEqual(['node-a', 'node-b']);
  expect(cluster.tasks).toContainEqual({
    job: 'worker',
    index: 1,
    host: 'node-b',
    device: 'GPU:0',
    memory_bytes: 8 * 2 ** 30
  });
  await page.reload();
  await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
  await expect(slot('node-b', 'GPU:0').locator('[data-what="worker:0"]')).toBeVisible();
  await expect(designer().getByRole('status', { name: 'Summary of the design' })).toContainText('1 warning');
});

test('a design can be edited with the keyboard alone', async () => {
  writeFileSync(
    path.join(ROOT, 'keys.dtf'),
    '{"version": 1, "cluster": {"hosts": [{"name": "a", "cpus": 4}, {"name": "b", "cpus": 4, "gpus": [0, 0]}]}}'
  );
  await open('keys.dtf');
  await chip('worker:0').focus();
  await page.keyboard.press('Enter');
  await expect(designer().locator('.jp-dtf-said')).toContainText('worker:0 is picked up');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowDown');
  await expect(designer().locator('.jp-dtf-said')).toHaveText('b GPU:0');
  await expect(slot('b', 'GPU:0')).toHaveClass(/jp-mod-target/);
  await page.keyboard.press('Escape');
  await expect(designer().locator('.jp-mod-target')).toHaveCount(0);
  await page.keyboard.press('Enter');
  await page.keyboard.press('End');
  await page.keyboard.press('Enter');
  await expect(slot('b', 'GPU:1').locator('[data-what="worker:0"]')).toBeFocused();
  await page.keyboard.press('Shift+Tab');
  await expect(slot('b', 'GPU:1').locator('[data-what="worker:0"]')).not.toBeFocused();
  const count = designer().getByLabel('Tasks of worker', { exact: true });
  await count.focus();
  await page.keyboard.press('ArrowUp');
  await expect(chip('worker:2')).toBeVisible();
  await designer().getByRole('button', { name: 'Distribute worker over the devices' }).focus();
  await page.keyboard.press('Enter');
  await expect(slot('b', 'GPU:0').locator('.jp-dtf-chip-task')).toHaveCount(2);
  await chip('worker:1').focus();
  await page.keyboard.press('Delete');
  const free = designer().getByRole('group', { name: 'Tasks of worker without a device' });
  await expect(free.locator('[data-what="worker:1"]')).toBeFocused();
});

test('all changes can be undone and redone, and a second view of the document follows', async () => {
  const before = onDisk('keys.dtf');
  await page.evaluate(() => {
    const { jupyterapp } = window as unknown as { jupyterapp: { commands: { execute(id: string): Promise<void> } } };
    return jupyterapp.commands.execute('docmanager:clone');
  });
  const views = page.locator('.jp-dtf-designer:visible');
  await expect(views).toHaveCount(2);
  const placed = (view: number) => views.nth(view).locator('.jp-dtf-slot .jp-dtf-chip-task');
  await expect(placed(1)).toHaveCount(2);
  const drawn = (view: number) => views.nth(view).locator('.jp-dtf-chip-task');
  await chip('worker:0').click();
  // The changes were: worker:0 placed, a third worker added, the job distributed, worker:1 removed from its device.
  for (const [onDevices, all] of [
    [3, 3],
    [1, 3],
    [1, 2],
    [0, 2]
  ] as const) {
    await page.keyboard.press('Control+z');
    for (const view of [0, 1]) {
      await expect(placed(view)).toHaveCount(onDevices);
      await expect(drawn(view)).toHaveCount(all);
    }
  }
  await page.keyboard.press('Control+Shift+z');
  await expect(placed(1)).toHaveCount(1);
  await page.keyboard.press('Control+z');
  await expect(placed(1)).toHaveCount(0);
  await save();
  expect(onDisk('keys.dtf')).toBe(before);
});

test('a change of the file on disk is shown, unless unsaved changes would be lost', async () => {
  const changed = async (workers: number) => {
    writeFileSync(path.join(ROOT, 'keys.dtf'), JSON.stringify({ version: 1, cluster: { jobs: { worker: workers } } }));
    await page.evaluate(() => window.dispatchEvent(new Event('focus'))); // as when the user returns to the window
  };
  await changed(5);
  await expect(chip('worker:4')).toBeVisible();
  await fill('Tasks of worker', '3');
  await changed(7);
  const notice = designer().getByText('The file has changed on disk');
  await expect(notice).toBeVisible();
  await expect(chip('worker:2')).toBeVisible();
  await designer().getByRole('button', { name: 'Load the version on disk' }).click();
  await expect(chip('worker:6')).toBeVisible();
  await expect(notice).toBeHidden();
});

test('the position of an error in a file is shown, and the file opens as text there', async () => {
  writeFileSync(
    path.join(ROOT, 'broken.dtf'),
    '{\n  "version": 1,\n  "cluster": {\n    "jobs": {"worker": "two"}\n  }\n}\n'
  );
  await open('broken.dtf');
  await expect(designer().getByText('`cluster.jobs.worker` must be a whole number, got "two"')).toBeVisible();
  await expect(designer().getByText('Line 4, column 24')).toBeVisible();
  await picture(page, 'designer-broken-light');
  await designer().getByRole('button', { name: 'Open as text at line 4' }).click();
  await expect(page.getByText('Ln 4, Col 24')).toBeVisible();
  await expect(page.locator('.jp-FileEditor .cm-content')).toBeFocused();
  for (const key of ['Delete', 'Delete', 'Delete', 'Delete', 'Delete', '3']) {
    await page.keyboard.press(key);
  }
  await page.locator('.lm-TabBar-tab', { hasText: 'broken.dtf' }).first().click();
  await expect(chip('worker:2')).toBeVisible();
});

test('a file of an older version is read, and saved in the current version', async () => {
  writeFileSync(path.join(ROOT, 'older.dtf'), '{"name": "old", "kind": "local", "jobs": {"worker": 3}}');
  await open('older.dtf');
  await expect(designer().locator('.jp-dtf-chip-task')).toHaveCount(3);
  await fill('Tasks of worker', '1');
  await save();
  expect(JSON.parse(onDisk('older.dtf'))).toMatchObject({ version: 1, cluster: { name: 'old', jobs: { worker: 1 } } });
});

test('a read-only file is shown, and cannot be edited', async () => {
  writeFileSync(path.join(ROOT, 'locked.dtf'), '{"version": 1, "cluster": {"hosts": [{"name": "a"}]}}');
  await open('locked.dtf');
  await expect(chip('worker:0')).toBeVisible();
  await expect(chip('worker:0')).toHaveAttribute('draggable', 'false');
  await expect(designer().getByLabel('Tasks of worker', { exact: true })).toBeDisabled();
  await expect(designer().getByRole('button', { name: 'Add a host' })).toBeHidden();
  await chip('worker:0').focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect(slot('a', 'CPU').locator('.jp-dtf-chip-task')).toHaveCount(0);
  await expect(
    page
      .getByRole('button', { name: 'Read-only' })
      .or(page.getByText(/read.only/i))
      .first()
  ).toBeVisible();
});

test('the cluster starts as drawn, and the drawing shows its state', async () => {
  writeFileSync(
    path.join(ROOT, 'live.dtf'),
    JSON.stringify({
      version: 1,
      cluster: {
        hosts: [
          { name: 'a', cpus: 1 },
          { name: 'b', cpus: 1 }
        ],
        tasks: [
          { job: 'worker', index: 0, host: 'b' },
          { job: 'worker', index: 1, host: 'a' }
        ]
      }
    })
  );
  await open('live.dtf');
  const document = page.locator('.jp-dtf-designer-document:visible');
  await document.getByRole('button', { name: 'Start' }).click();
  await expect(document.getByRole('button', { name: 'Stop' })).toBeVisible();
  await expect(designer().getByText('live · running')).toBeVisible();
  await expect(slot('a', 'CPU').getByRole('progressbar', { name: /^Memory in use/ })).toBeVisible();
  await picture(page, 'designer-cluster-live-light');
  const panel = await openPanel(page);
  await panel.getByRole('listitem', { name: 'Cluster live' }).getByRole('button', { name: 'Actions for live' }).click();
  await page.getByRole('menuitem', { name: 'Save as Design' }).click();
  await expect(current('untitled1.dtf')).toBeVisible();
  await expect(slot('b', 'CPU').locator('[data-what="worker:0"]')).toBeVisible();
  await page.keyboard.press('Alt+w');
  await expect(current('live.dtf')).toBeVisible();
  await document.getByRole('button', { name: 'Stop' }).click();
  await expect(document.getByRole('button', { name: 'Start' })).toBeVisible();
});

test('the form for a new cluster can be opened in the designer, with the hosts that it would have', async () => {
  const panel = await openPanel(page);
  await panel.getByRole('button', { name: 'New cluster' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('drawn');
  await expect(dialog.getByText('localhost:0').first()).toBeVisible();
  await dialog.getByRole('button', { name: 'Open in designer' }).click();
  await expect(dialog).toBeHidden();
  await expect(current('drawn.dtf')).toBeVisible();
  await expect(designer().getByLabel('Name', { exact: true })).toHaveValue('drawn');
  await expect(designer().getByRole('listitem', { name: /^Host / })).toHaveCount(1);
});

test('a placed model is exported as a script next to the design', async () => {
  const layer = (id: string) => ({ id, kind: 'Dense' });
  writeFileSync(
    path.join(ROOT, 'placed.dtf'),
    JSON.stringify({
      version: 1,
      model: { graph: { model: 'two', layers: [layer('one'), layer('two')], edges: [] } },
      placement: {
        devices: { one: '/job:worker/task:0/device:CPU:0', two: '/job:worker/task:1/device:CPU:0' }
      }
    })
  );
  await open('placed.dtf');
  await page.locator('.jp-dtf-designer-document:visible').getByRole('button', { name: 'Script' }).click();
  await expect(current('placed.py')).toBeVisible();
  expect(onDisk('placed.py')).toContain('/job:worker/task:1/device:CPU:0');
});

test('screenshots in both themes and several widths', async () => {
  await open('untitled.dtf');
  // Wait until this document, not another one of the restored workspace, is the current one and has been checked.
  await expect(designer().getByRole('status', { name: 'Summary of the design' })).toContainText('1 warning');
  await chip('worker:1').click();
  for (const dark of [false, true]) {
    await setTheme(page, dark);
    await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
    for (const width of [1800, 1440, 1280, 900, 760]) {
      await page.setViewportSize({ width, height: 900 });
      await expect(chip('worker:1')).toBeVisible();
      await picture(page, `designer-cluster-${width}-${dark ? 'dark' : 'light'}`);
    }
  }
  await setTheme(page, false);
  await page.setViewportSize({ width: 1400, height: 900 });
});
