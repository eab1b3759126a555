import { expect, Page, test } from '@playwright/test';

import { execute, openLab, picture, setTheme, writePastRuns } from './lab';

// Two thousand runs of the past, of which two have epochs and two tasks each.
const MANY = 2000;
let page: Page;

test.beforeAll(async ({ browser }) => {
  const metrics = ['loss', 'epoch_loss', 'val_loss', 'accuracy'];
  const common = { metrics, tasks: 2, points: 60, epoch: 20, strategy: 'allreduce' };
  writePastRuns([
    { ...common, id: 'first', name: 'digits', age: 10, parameters: { batch_size: 64, optimizer: 'SGD', epochs: 3 } },
    {
      ...common,
      id: 'second',
      name: 'digits 2',
      age: 5,
      parameters: { batch_size: 128, optimizer: 'Adam', epochs: 3 }
    },
    ...Array.from({ length: MANY }, (_, index) => ({
      id: `old-${index}`,
      name: `old ${index}`,
      metrics: [],
      tasks: 1,
      points: 0,
      age: 1_000_000 + index, // older than what other stories show in the panel
      parameters: { batch_size: index }
    }))
  ]);
  page = await browser.newPage();
  await openLab(page);
  await execute(page, 'jupyter-dtf:open-history');
});

test.afterAll(async () => {
  await page.close();
});

const rows = () => page.locator('.jp-dtf-history-row[data-run]');

test('runs are found among thousands, tagged, deleted and had back', async () => {
  await expect(rows().first()).toHaveAttribute('data-run', 'second');
  expect(await rows().count()).toBeLessThan(200);
  const find = page.getByRole('searchbox', { name: 'Find runs by words or conditions' });
  await find.fill('batch_size >= 1998 and name ~ old');
  await expect(rows()).toHaveCount(2);

  await rows()
    .first()
    .getByRole('button', { name: /^More on/ })
    .click();
  await page.getByRole('menuitem', { name: 'Tags of Run…' }).click();
  await page.locator('.jp-Dialog input').fill('slow, to look at');
  await page.locator('.jp-Dialog').getByRole('button', { name: 'Ok' }).click();
  await expect(rows().first()).toContainText('slow, to look at');
  await find.fill('to look at');
  await expect(rows()).toHaveCount(1);

  await rows()
    .first()
    .getByRole('button', { name: /^More on/ })
    .click();
  await page.getByRole('menuitem', { name: 'Delete Run' }).click();
  await expect(rows()).toHaveCount(0);
  await page.getByRole('button', { name: 'Undo' }).click();
  await expect(rows()).toHaveCount(1);
  await find.fill('');
});

test('those that are ticked lie upon each other, with what differs', async () => {
  await page.getByLabel('Compare digits', { exact: true }).check();
  await page.getByLabel('Compare digits 2', { exact: true }).check();
  const compared = page.getByRole('region', { name: 'Comparison' });
  const loss = compared.getByRole('region', { name: 'loss', exact: true });
  await expect(loss.locator('.bk-Figure')).toBeVisible();
  await expect(loss.locator('.jp-dtf-plot-legend')).toContainText('digits 2');
  await picture(page, 'history-light');
  await compared.getByRole('tab', { name: 'Parameters' }).click();
  await expect(compared.getByRole('row', { name: /parameters.batch_size/ })).toContainText('64128');
  await expect(compared.getByRole('row', { name: /parameters.epochs/ })).toHaveCount(0);
  await setTheme(page, true);
  await picture(page, 'history-parameters-dark');
});
