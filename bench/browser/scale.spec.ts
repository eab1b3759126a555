import { expect, Page, test } from '@playwright/test';
import { writeFileSync } from 'node:fs';
import path from 'node:path';

import { openLab, openPanel, openRun, writePastRuns } from '../../tests/ui/lab';
import { withHosts } from '../../tests/ui/many';
import { framesWhile } from './frames';

const [HOSTS, TASKS, GPUS] = [1_000, 512, 8];

/** Returns a design with 512 tasks, one on each GPU of 64 hosts, and a model on the first four tasks. */
function design(): object {
  const hosts = Array.from({ length: TASKS / GPUS }, (_, index) => ({
    name: `node-${index}`,
    cpus: 96,
    memory_bytes: 2 ** 40,
    gpus: Array.from({ length: GPUS }, () => 80 * 2 ** 30)
  }));
  const tasks = Array.from({ length: TASKS }, (_, index) => ({
    job: 'worker',
    index,
    host: `node-${Math.floor(index / GPUS)}`,
    device: `GPU:${index % GPUS}`
  }));
  const layers = Array.from({ length: 16 }, (_, index) => ({
    id: `dense_${index}`,
    kind: 'Dense',
    parameters: 330,
    parameter_bytes: 1320,
    flops: 660
  }));
  const edges = layers.slice(1).map(({ id }, index) => ({ source: layers[index]!.id, target: id, bytes: 128 }));
  const devices = Object.fromEntries(
    layers.map(({ id }, index) => [id, `/job:worker/task:${Math.floor(index / 4)}/device:GPU:0`])
  );
  return {
    version: 1,
    cluster: { jobs: { worker: TASKS }, hosts, tasks },
    model: { source: { kind: 'none' }, graph: { model: 'digits', layers, edges } },
    placement: { devices }
  };
}

/** Clicks, and returns the milliseconds until `there` is true in the page and has been painted. */
async function clicked(page: Page, selector: string, there: () => boolean): Promise<number> {
  const began = await page.evaluate(what => {
    const now = performance.now();
    [...document.querySelectorAll<HTMLElement>(what)].find(node => node.offsetParent !== null)!.click();
    return now;
  }, selector);
  await page.waitForFunction(there);
  return painted(page, began);
}

/** Waits until the page has painted, and returns the milliseconds since `began`, by the page's clock. */
function painted(page: Page, began: number): Promise<number> {
  return page.evaluate(
    since =>
      new Promise<number>(resolve =>
        requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - since)))
      ),
    began
  );
}

/** Returns the frames per second while the mouse wheel turns over an element. */
async function scrolled(page: Page, selector: string): Promise<number> {
  const box = (await page.locator(selector).last().boundingBox())!;
  await page.mouse.move(box.x + box.width / 2, box.y + Math.min(box.height / 2, 200));
  return framesWhile(page, async () => {
    for (let turn = 0; turn < 60; turn++) {
      await page.mouse.wheel(0, turn < 30 ? 120 : -120);
    }
  });
}

test('a thousand hosts, and a run and a design of 512 tasks', async ({ page }) => {
  test.setTimeout(120_000);
  const found: Record<string, number> = {};
  const root = path.join(process.env.DTF_UI_DIRECTORY ?? '', 'root');
  writeFileSync(path.join(root, 'large.dtf'), JSON.stringify(design()));
  const common = { metrics: ['loss', 'examples_per_second', 'step_seconds', 'cpu', 'memory_bytes'], points: 200, age: 60 };
  writePastRuns([
    { ...common, id: 'small', tasks: 2 },
    { ...common, id: 'large', tasks: TASKS }
  ]);
  await withHosts(page, HOSTS);
  await openLab(page);
  const panel = await openPanel(page);
  await expect(panel.getByText('past', { exact: true })).toBeVisible();
  const toggle = `void window.jupyterapp.commands.execute('application:toggle-left-area')`;
  await page.evaluate(toggle);
  await expect(panel).toBeHidden();
  const shows = await page.evaluate(() => performance.now());
  await page.evaluate(toggle);
  await page.waitForFunction(() => document.querySelector('.jp-dtf-cluster')!.checkVisibility());
  found.panel_ms = await painted(page, shows);

  // Open a run once, so that the page's first use of Bokeh is not measured.
  await openRun(page, 'small', () => document.querySelector('[role=slider] .bk-Figure') !== null);
  const began = await page.evaluate(() => performance.now());
  await openRun(
    page,
    'large',
    () => document.querySelectorAll('.jp-dtf-dashboard:not(.lm-mod-hidden *) [role=slider] .bk-Figure').length > 1
  );
  found.dashboard_ms = await painted(page, began);
  found.machines_ms = await clicked(
    page,
    '[data-tab=machines]',
    () => document.querySelectorAll('.jp-dtf-dashboard:not(.lm-mod-hidden *) .jp-dtf-machines tbody tr').length > 5
  );
  const history = page.locator('.jp-dtf-dashboard:not(.lm-mod-hidden *) .jp-dtf-history');
  const looks = await page.evaluate(() => performance.now());
  await history.evaluate(node => node.scrollIntoView());
  await page.waitForFunction(
    () => document.querySelectorAll('.jp-dtf-dashboard:not(.lm-mod-hidden *) .jp-dtf-history .bk-Figure').length > 1
  );
  found.history_ms = await painted(page, looks);
  found.scrolled_fps = await scrolled(page, '.jp-dtf-dashboard:not(.lm-mod-hidden *) .jp-dtf-machines');

  const opens = await page.evaluate(() => {
    const { jupyterapp } = window as unknown as {
      jupyterapp: { commands: { execute(id: string, args: object): Promise<void> } };
    };
    void jupyterapp.commands.execute('docmanager:open', { path: 'large.dtf' });
    return performance.now();
  });
  await page.waitForFunction(() => document.querySelector('.jp-dtf-hosts .jp-dtf-host') !== null);
  found.designer_ms = await painted(page, opens);
  found.placement_ms = await clicked(
    page,
    '.jp-dtf-designer [data-tab=placement]',
    () => document.querySelector('.jp-dtf-placement [role=treeitem]') !== null
  );
  writeFileSync(process.env.DTF_BENCH_RESULT ?? 'scale.json', JSON.stringify(found));
});
