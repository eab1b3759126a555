import { expect, Page, test } from '@playwright/test';

import { openLab, openPanel, openRun, picture, setTheme, writePastRuns } from './lab';

// A run whose loss becomes NaN, with values per batch, per epoch and of the validation.
let page: Page;
const SENTENCE = 'loss became NaN at step 80 on worker:1';

test.beforeAll(async ({ browser }) => {
  const metrics = ['loss', 'epoch_loss', 'val_loss', 'accuracy', 'learning_rate'];
  writePastRuns([
    { id: 'nan', metrics, tasks: 2, points: 120, epoch: 30, nan: { metric: 'loss', step: 80, task: 'worker:1' } }
  ]);
  page = await browser.newPage();
});

test.afterAll(async () => {
  await page.close();
});

test('a loss that became NaN is reported in the list of runs, in the dashboard and on its plot', async () => {
  await openLab(page);
  await openPanel(page);
  await expect(page.locator('.jp-dtf-run[data-run=nan]')).toContainText(SENTENCE);
  await openRun(page, 'nan', () => document.querySelectorAll('.jp-dtf-plot-area[role=slider] .bk-Figure').length > 2);
  const dashboard = page.locator('.jp-dtf-dashboard:visible');
  await expect(dashboard.locator('.jp-dtf-header').getByText(SENTENCE)).toBeVisible();
  await expect(dashboard.getByRole('list', { name: 'Marks on the plots' })).toContainText(SENTENCE);
  const loss = dashboard.getByRole('region', { name: 'loss' });
  await expect(loss).toContainText('batch');
  await expect(loss).toContainText('epoch');
  await expect(loss).toContainText('validation');
  await expect(loss.locator('.jp-dtf-plot-legend')).toContainText('NaN');
  await loss.getByRole('slider').focus();
  await page.keyboard.press('End');
  await expect(loss.getByRole('slider')).toHaveAttribute('aria-valuetext', /^119, /);
  await page.keyboard.press('Escape');
  await picture(page, 'values-nan-light');
  await setTheme(page, true);
  await picture(page, 'values-nan-dark');
});
