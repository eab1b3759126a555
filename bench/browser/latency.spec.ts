import { expect, test } from '@playwright/test';
import { writeFileSync } from 'node:fs';

import { openPanel, runNotebook, writeNotebook } from '../../tests/ui/lab';

const SECONDS = 20;

test('from report to the plot', async ({ page }) => {
  writeNotebook('latency.ipynb', [
    'import jupyter_dtf as dtf\ncluster = dtf.Cluster(jobs={"worker": 1}, name="latency")',
    `def clock(args, ctx):
    import time
    begin = time.perf_counter()
    for step in range(120_000):
        ctx.report(step=step, clock=time.time() % 10)
        ahead = begin + step / 1000 - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        if ctx.should_stop:
            return
run = cluster.run(clock, wait=False)`
  ]);
  await runNotebook(page, 'latency.ipynb');
  const panel = await openPanel(page);
  await panel.getByRole('button', { name: /Open the dashboard of clock, running/ }).click();
  const shown = page.locator('.jp-dtf-dashboard:visible .jp-dtf-plot-value').first();
  await expect(shown).toHaveText(/^\d/);
  const frames = await shown.evaluate(
    (element, seconds) =>
      new Promise<[number, number][]>(resolve => {
        const seen: [number, number][] = [];
        const end = performance.now() + seconds * 1000;
        let text = '';
        const look = () => {
          // The number and the line next to it are drawn together, in this frame or before.
          if (element.textContent !== text) {
            text = element.textContent ?? '';
            const now = Date.now() / 1000;
            let clock = Math.floor(now / 10) * 10 + Number(text);
            if (clock > now + 1) {
              clock -= 10;
            }
            seen.push([now, clock]);
          }
          if (performance.now() < end) {
            requestAnimationFrame(look);
          } else {
            resolve(seen);
          }
        };
        requestAnimationFrame(look);
      }),
    SECONDS
  );
  writeFileSync(process.env.DTF_BENCH_RESULT ?? 'frames.json', JSON.stringify(frames));
  expect(frames.length).toBeGreaterThan(SECONDS);
  await panel.getByRole('button', { name: 'Stop clock' }).click();
});
