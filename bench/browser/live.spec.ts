import { Browser, expect, Page, test } from '@playwright/test';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { openPanel, runNotebook, writeNotebook } from '../../tests/ui/lab';
import { framesWhile } from './frames';

const [TASKS, PLOTS, POINTS] = [8, 16, 100_000];
const REST_S = 30;
const [GROWTH_S, GROWTH_SAMPLES] = [180, 5];
const ZOOMS = 6;

/** Returns the CPU seconds that the page's process has used so far. */
async function cpuSeconds(browser: Browser): Promise<number> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  return processInfo.filter(({ type }) => type === 'renderer').reduce((total, { cpuTime }) => total + cpuTime, 0);
}

// What the browser keeps for itself: its lists of requests, scripts and slow frames, which have a largest size.
const OWN = /^(Performance|LayoutShift|DOMRect|TaskAttribution|blink::|system \/ (?!JSArrayBufferData))/;

/** Returns the bytes of the page's objects and elements, after a garbage collection, without compiled code. */
async function objectBytes(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  const parts: string[] = [];
  session.on('HeapProfiler.addHeapSnapshotChunk', ({ chunk }) => parts.push(chunk));
  await session.send('HeapProfiler.collectGarbage');
  await session.send('HeapProfiler.takeHeapSnapshot', { reportProgress: false });
  await session.detach();
  const { snapshot, nodes, strings } = JSON.parse(parts.join(''));
  const fields: string[] = snapshot.meta.node_fields;
  const types: string[] = snapshot.meta.node_types[0];
  const [type, name, size] = ['type', 'name', 'self_size'].map(field => fields.indexOf(field)) as [number, number, number];
  let total = 0;
  for (let node = 0; node < nodes.length; node += fields.length) {
    const kind = types[nodes[node + type]]!;
    if (kind !== 'code' && !(kind === 'native' && OWN.test(strings[nodes[node + name]]))) {
      total += nodes[node + size];
    }
  }
  return total;
}

/** Returns the median slope of all pairs of points (Theil and Sen), which a single large value does not change. */
function slope(points: readonly (readonly [number, number])[]): number {
  const slopes = points.flatMap(([x, y], index) =>
    points.slice(index + 1).map(([laterX, laterY]) => (laterY - y) / (laterX - x))
  );
  return slopes.sort((a, b) => a - b)[slopes.length >> 1]!;
}

test('the dashboard of a run in progress', async ({ page, browser }) => {
  test.setTimeout(1_200_000);
  const directory = path.join(process.env.DTF_UI_DIRECTORY ?? '', 'root');
  writeNotebook('live.ipynb', [
    `import jupyter_dtf as dtf\ncluster = dtf.Cluster(${TASKS}, name="live")`,
    `def lines(args, ctx):
    import math, pathlib
    names = [f"m{chr(97 + index)}" for index in range(${PLOTS})]
    def report(step):
        ctx.report(step=step, **{name: math.sin(step / 5000 + ctx.rank + at) for at, name in enumerate(names)})
    for step in range(${POINTS}):
        report(step)
    pathlib.Path(f"caught-up-{ctx.rank}").touch()
    while not ctx.stop_requested.wait(0.1):
        step += 1
        report(step)
run = cluster.run(lines, wait=False)`
  ]);
  await page.setViewportSize({ width: 1800, height: 1400 });
  await runNotebook(page, 'live.ipynb');
  const panel = await openPanel(page);
  await panel.getByRole('button', { name: /Open the dashboard of lines, running/ }).click();
  const dashboard = page.locator('.jp-dtf-dashboard:visible');
  const plots = dashboard.locator('.jp-dtf-plot-area[role=slider]');
  await expect(plots).toHaveCount(PLOTS);
  const ranks = Array.from({ length: TASKS }, (_, rank) => path.join(directory, `caught-up-${rank}`));
  await expect.poll(() => ranks.every(existsSync), { timeout: 900_000, intervals: [1000] }).toBe(true);
  const shareFor = async (seconds: number) => {
    const before = await cpuSeconds(browser);
    await page.waitForTimeout(seconds * 1000);
    return ((await cpuSeconds(browser)) - before) / seconds;
  };
  await expect.poll(() => shareFor(2), { intervals: [0] }).toBeLessThan(0.5); // all points reported so far are drawn

  const share = await shareFor(REST_S);

  const heap: [number, number][] = [];
  for (let sample = 0; sample < GROWTH_SAMPLES; sample++) {
    heap.push([performance.now() / 1000, await objectBytes(page)]);
    await page.waitForTimeout((GROWTH_S * 1000) / GROWTH_SAMPLES);
  }

  const area = (await plots.nth(5).boundingBox())!;
  const fps = await framesWhile(page, async () => {
    for (let zoom = 0; zoom < ZOOMS; zoom++) {
      await page.mouse.move(area.x + area.width * 0.3, area.y + area.height / 2);
      await page.mouse.down();
      for (let move = 0; move <= 40; move++) {
        await page.mouse.move(area.x + area.width * (0.3 + move / 100), area.y + area.height / 2 + move);
      }
      await page.mouse.up();
      if (zoom % 3 === 2) {
        await page.mouse.dblclick(area.x + area.width / 2, area.y + area.height / 2);
      }
    }
  });

  const grown = { heap_bytes: heap[0]![1], growth_bytes_per_s: slope(heap) };
  writeFileSync(
    process.env.DTF_BENCH_RESULT ?? 'live.json',
    JSON.stringify({ rest_share: share, zoom_fps: fps, ...grown })
  );
  await panel.getByRole('button', { name: 'Stop lines' }).click();
});
