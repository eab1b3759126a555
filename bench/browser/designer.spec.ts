import { expect, Page, test } from '@playwright/test';
import { writeFileSync } from 'node:fs';
import path from 'node:path';

import { openLab } from '../../tests/ui/lab';
import { framesWhile } from './frames';

const KINDS = ['Dense', 'Conv2D', 'BatchNormalization', 'ReLU', 'Add', 'Dropout', 'LayerNormalization'];
const [STAGES, BLOCKS, LAYERS] = [20, 25, 20];

/** Returns a design with 10,000 layers: stages of blocks, some of them alike, with a skip connection per block. */
function design(): object {
  const layers = [];
  const edges = [];
  for (let stage = 0; stage < STAGES; stage++) {
    for (let block = 0; block < BLOCKS; block++) {
      for (let index = 0; index < LAYERS; index++) {
        const units = 32 * (1 + stage);
        const other = stage % 3 > 0 ? block % 2 : 0;
        layers.push({
          id: `stage_${stage}/block_${block}/layer_${index}`,
          kind: KINDS[(index * (stage + 3) + other) % KINDS.length],
          input_shapes: [[1, units]],
          output_shapes: [[1, units]],
          parameters: units * units,
          parameter_bytes: 4 * units * units,
          gradient_bytes: 4 * units * units,
          slot_bytes: 8 * units * units,
          activation_bytes: 4 * units,
          flops: 2 * units * units
        });
      }
    }
  }
  for (let index = 1; index < layers.length; index++) {
    edges.push({ source: layers[index - 1]!.id, target: layers[index]!.id, bytes: 128 });
    if (index % LAYERS === LAYERS - 1) {
      edges.push({ source: layers[index + 1 - LAYERS]!.id, target: layers[index]!.id, bytes: 128 });
    }
  }
  const devices = Object.fromEntries(
    layers.map(({ id }, index) => [id, `/job:worker/task:${index < layers.length / 2 ? 0 : 1}/device:CPU:0`])
  );
  return {
    version: 1,
    cluster: { jobs: { worker: 2 } },
    model: { source: { kind: 'none' }, graph: { model: 'large', layers, edges } },
    placement: { devices }
  };
}

async function drag(page: Page, from: { x: number; y: number }, by: { x: number; y: number }): Promise<void> {
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  for (let step = 1; step <= 60; step++) {
    await page.mouse.move(from.x + (by.x * step) / 60, from.y + (by.y * step) / 60);
  }
}

test('10,000 layers', async ({ page }) => {
  const root = path.join(process.env.DTF_UI_DIRECTORY ?? '', 'root');
  writeFileSync(path.join(root, 'large.dtf'), JSON.stringify(design()));
  await openLab(page);
  await page.evaluate(() => {
    const { jupyterapp } = window as unknown as {
      jupyterapp: { commands: { execute(id: string, args: object): Promise<void> } };
    };
    Object.assign(window, { dtfBegin: performance.now() });
    void jupyterapp.commands.execute('docmanager:open', { path: 'large.dtf' });
  });
  await page.getByRole('tab', { name: 'Placement' }).click();
  const view = page.locator('.jp-dtf-placement:visible');
  const tree = view.getByRole('tree');
  await expect(view.getByRole('treeitem').first()).toBeVisible();
  // Responsive: it has handled a key and drawn the result.
  await tree.focus();
  const before = await tree.getAttribute('aria-activedescendant');
  await page.keyboard.press('ArrowDown');
  await expect(tree).not.toHaveAttribute('aria-activedescendant', before ?? '');
  const opened = await page.evaluate(
    () =>
      new Promise<number>(resolve =>
        requestAnimationFrame(() =>
          resolve(performance.now() - (window as unknown as { dtfBegin: number }).dtfBegin)
        )
      )
  );
  const shown = await view.getByRole('treeitem').count();
  await expect(view.getByText(/^predicted step/)).toBeVisible(); // the other results have arrived

  const graph = (await view.locator('.react-flow__pane').boundingBox())!;
  const panned = await framesWhile(page, async () => {
    await drag(page, { x: graph.x + 20, y: graph.y + graph.height / 2 }, { x: 300, y: -120 });
    await page.mouse.up();
  });
  await view.getByRole('button', { name: 'Fit View' }).click();
  const layer = (await view.locator('.jp-dtf-layer').nth(10).boundingBox())!;
  const device = (await view.getByRole('option').last().boundingBox())!;
  const from = { x: layer.x + layer.width / 2, y: layer.y + layer.height / 2 };
  const dragged = await framesWhile(page, async () => {
    await drag(page, from, { x: device.x + 30 - from.x, y: device.y + 12 - from.y });
  });
  const dropped = await page.evaluate(() => performance.now());
  await page.mouse.up();
  await expect(view.locator('.jp-dtf-said')).toHaveText(/^Put on worker:1/);
  const placed = (await page.evaluate(() => performance.now())) - dropped;
  writeFileSync(
    process.env.DTF_BENCH_RESULT ?? 'designer.json',
    JSON.stringify({ opened_ms: opened, shown, panned_fps: panned, dragged_fps: dragged, placed_ms: placed })
  );
});
