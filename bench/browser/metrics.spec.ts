import { expect, Page, test } from '@playwright/test';
import { writeFileSync } from 'node:fs';

import { openLab, openRun, writePastRuns } from '../../tests/ui/lab';
import { framesWhile } from './frames';

const METRICS = 500;
const PLOTS = 16;
const MOVES = 300;

/** Returns a function that returns the longest time, in milliseconds, for which the page has been blocked since now. */
async function watchLongTasks(page: Page): Promise<() => Promise<number>> {
  await page.evaluate(() => {
    const long: number[] = [];
    Object.assign(window, { dtfLong: long });
    new PerformanceObserver(list => list.getEntries().forEach(entry => long.push(entry.duration))).observe({
      type: 'longtask'
    });
  });
  return () => page.evaluate(() => Math.max(0, ...(window as unknown as { dtfLong: number[] }).dtfLong));
}

test('many metrics, and the crosshair on large plots', async ({ page }) => {
  const layers = Array.from({ length: METRICS - 2 }, (_, i) => `layer_${i >> 1}/${i % 2 ? 'norm' : 'gradient'}`);
  const large = Array.from({ length: PLOTS }, (_, i) => `m${String.fromCharCode(97 + i)}`);
  writePastRuns([
    { id: 'many', metrics: ['loss', 'accuracy', ...layers], tasks: 2, points: 200 },
    { id: 'long', metrics: large, tasks: 8, points: 20_000 }
  ]);
  await page.setViewportSize({ width: 1800, height: 1400 });
  await openLab(page);
  const longest = await watchLongTasks(page);
  const began = await page.evaluate(() => performance.now());
  const opened = await openRun(page, 'many', () => document.querySelectorAll('.jp-dtf-plot').length > 0);
  await page.waitForFunction(() => document.querySelector('.jp-dtf-plot-area[role=slider] .bk-Figure') !== null);
  const drawn = (await page.evaluate(() => performance.now())) - began;
  const stuck = await longest();

  await openRun(
    page,
    'long',
    () => document.querySelectorAll('.jp-dtf-dashboard:not(.lm-mod-hidden *) [role=slider] .bk-Figure').length > 0
  );
  const dashboard = page.locator('.jp-dtf-dashboard:visible');
  const plots = dashboard.locator('.jp-dtf-plot-area[role=slider]');
  await expect(plots).toHaveCount(PLOTS);
  await expect(plots.last().locator('canvas').first()).toBeVisible();
  const plot = (await plots.nth(5).boundingBox())!;
  const fps = await framesWhile(page, async () => {
    for (let move = 0; move < MOVES; move++) {
      await page.mouse.move(plot.x + 80 + (move % 100) * 2.5, plot.y + 60 + (move % 30));
    }
  });
  writeFileSync(
    process.env.DTF_BENCH_RESULT ?? 'metrics.json',
    JSON.stringify({ opened_ms: opened, drawn_ms: drawn, longest_ms: stuck, hovered_fps: fps })
  );
});
