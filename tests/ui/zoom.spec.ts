import { expect, Page, test } from '@playwright/test';
import { readFileSync } from 'node:fs';

import { openLab, openRun, picture, setTheme, writePastRuns } from './lab';

// Zooming into a run with many points, and the histograms, images, texts and output of tasks. Each test continues where
// the previous one stopped.
test.describe.configure({ mode: 'serial' });

const POINTS = 60_000;
let page: Page;

test.beforeAll(async ({ browser }) => {
  writePastRuns([
    {
      id: 'long',
      metrics: ['loss', 'accuracy', 'examples_per_second'],
      tasks: 3,
      points: POINTS,
      parameters: { batch_size: 32 },
      shows: true
    }
  ]);
  page = await browser.newPage();
});

test.afterAll(async () => {
  await page.close();
});

const dashboard = () => page.locator('.jp-dtf-dashboard:visible');
const loss = () => dashboard().getByRole('region', { name: 'loss' });

const tab = (name: string) => dashboard().getByRole('tabpanel', { name });

async function saved(format: string): Promise<string> {
  await loss().hover();
  await loss().getByRole('button', { name: 'Save loss' }).click();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    loss().getByRole('menuitem', { name: format }).click()
  ]);
  return readFileSync(await download.path(), 'utf8');
}

/** Returns the steps of one task's line, as they are drawn. */
async function steps(): Promise<number[]> {
  const rows = (await saved('CSV')).trim().split('\r\n').slice(1);
  return rows.filter(row => row.includes('worker:1')).map(row => Number(row.split(',')[2]));
}

test('zooming in loads every point of the visible part', async () => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await openLab(page);
  await setTheme(page, false);
  await openRun(page, 'long', () => document.querySelectorAll('.jp-dtf-plot-area[role=slider] .bk-Figure').length > 2);
  const whole = await steps();
  expect(whole.length).toBeLessThan(3000);
  expect(whole.at(-1)).toBe(POINTS - 1);
  const area = (await loss().getByRole('slider').boundingBox())!;
  for (const pixels of [12, 30]) {
    const part = page.waitForResponse(response => response.url().includes('/series?'));
    await page.mouse.move(area.x + area.width / 2, area.y + 30);
    await page.mouse.down();
    await page.mouse.move(area.x + area.width / 2 + pixels, area.y + 140, { steps: 4 });
    await page.mouse.up();
    expect((await part).ok()).toBe(true);
  }
  await expect(async () => {
    const seen = await steps();
    expect(seen.length).toBeGreaterThan(100);
    expect(seen.every((step, index) => index === 0 || step === seen[index - 1]! + 1)).toBe(true);
  }).toPass();
  await picture(page, 'zoom-1440-light');
  await loss().getByRole('button', { name: 'Show all of loss again' }).click();
  await expect(async () => expect(await steps()).toEqual(whole)).toPass();
});

test('a task can be hidden or shown alone in all plots, and the x axis can be examples or the time', async () => {
  const name = (plot: string, task: string) =>
    dashboard().getByRole('region', { name: plot }).getByRole('button', { name: task });
  await name('loss', 'worker:1').click();
  await expect(name('accuracy', 'worker:1')).toHaveAttribute('aria-pressed', 'false');
  expect(await steps()).toEqual([]);
  await name('accuracy', 'worker:1').click({ modifiers: ['Shift'] });
  await expect(name('loss', 'worker:0')).toHaveAttribute('aria-pressed', 'false');
  await expect(name('loss', 'worker:1')).toHaveAttribute('aria-pressed', 'true');
  expect(await saved('SVG')).toMatch(/^(<\?xml[^>]*>\s*)?<svg[^]*<path/);
  await name('accuracy', 'worker:1').click({ modifiers: ['Shift'] });
  const axis = dashboard().locator('label', { hasText: /^x/ }).locator('select');
  await axis.selectOption('examples');
  await expect(async () => expect((await steps()).at(-1)).toBe(32 * (POINTS - 1))).toPass();
  await axis.selectOption('wall');
  await expect(async () => expect((await steps()).at(-1)).toBeGreaterThan(1.7e9)).toPass();
  await picture(page, 'zoom-wall-light');
  await axis.selectOption('step');
});

test('histograms are shown as a heat map, and images as a strip with a slider', async () => {
  await dashboard().getByRole('tab', { name: 'Histograms, images, text' }).click();
  const kernel = dashboard().getByRole('region', { name: 'dense/kernel' });
  await expect(kernel.getByText('19 NaN')).toBeVisible();
  await kernel.getByRole('slider').focus();
  await page.keyboard.press('Home');
  await expect(kernel.getByRole('slider')).toHaveAttribute('aria-valuetext', /^step 0 · .* · peak at /);
  const shown = dashboard().getByRole('region', { name: 'reconstruction' });
  await expect(shown.getByRole('img')).toHaveCount(6);
  await shown.getByRole('slider').press('Home');
  await expect(shown.getByRole('img')).toHaveCount(1);
  await expect(shown.getByRole('img')).toHaveJSProperty('naturalWidth', 48);
  await shown.getByRole('slider').press('End');
  await expect(shown.getByRole('img')).toHaveCount(6);
  await picture(page, 'media-1440-light');
  const sample = dashboard().getByRole('region', { name: 'sample' });
  await sample.getByRole('slider').press('Home');
  await expect(sample.locator('pre')).toHaveText('worker:0 at step 0\n<b>says</b> this');
  const worst = dashboard().getByRole('region', { name: 'worst' });
  await expect(worst.getByRole('columnheader')).toHaveText(['image', 'loss', 'right']);
  await worst.getByRole('slider').press('Home');
  await expect(worst.getByRole('row').nth(2)).toHaveText('test/1.png1false');
  await worst.scrollIntoViewIfNeeded();
  await picture(page, 'media-texts-1440-light');
  await tab('Histograms, images, text').getByLabel('task').selectOption('worker:2');
  await setTheme(page, true);
  await page.setViewportSize({ width: 900, height: 900 });
  await expect(shown.getByRole('img')).toHaveCount(6);
  await picture(page, 'media-900-dark');
  await dashboard().getByRole('tab', { name: 'Metrics' }).click();
  await picture(page, 'zoom-900-dark');
});

test('output keeps its colors, and can be searched, filtered by level and downloaded', async () => {
  await dashboard().getByRole('tab', { name: 'Output' }).click();
  const log = dashboard().getByRole('log');
  await expect(log.locator('.jp-dtf-fg-1').first()).toHaveText('ValueError');
  await picture(page, 'output-900-dark');
  await tab('Output').getByLabel('level').selectOption('error');
  await expect(log.locator('.jp-dtf-line')).toHaveCount(9);
  await dashboard().getByLabel('Find in these lines').fill('LABELS');
  await expect(log.locator('mark')).toHaveText(['labels', 'labels', 'labels']);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    dashboard().getByRole('link', { name: 'Download' }).click()
  ]);
  expect(readFileSync(await download.path(), 'utf8').split('\n')[0]).toContain('worker:0 | ');
  await setTheme(page, false);
  await page.setViewportSize({ width: 1440, height: 900 });
  await dashboard().getByLabel('Find in these lines').fill('');
  await tab('Output').getByLabel('level').selectOption('info');
  await picture(page, 'output-1440-light');
});
