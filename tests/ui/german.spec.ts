import { expect, Locator, test } from '@playwright/test';
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { expectAccessible } from './axe';
import { execute, openLab, openPanel, openRun, picture, writePastRuns } from './lab';

const SETTING = '/lab/api/settings/@jupyterlab/translation-extension:plugin';
const HEADERS = { Authorization: 'token test' };

const CATALOGUE = path.join(__dirname, '../../jupyter_dtf/locale/de_DE/LC_MESSAGES/jupyter_dtf.json');
/**
 * Messages without placeholders whose German translation differs. Words in lower case are left out, because they may be
 * names of columns.
 */
const ENGLISH: string[] = Object.entries(JSON.parse(readFileSync(CATALOGUE, 'utf8')) as Record<string, string[]>)
  .map(([key, forms]) => [key.split('\u0004').at(-1) ?? '', forms[0] ?? ''])
  .filter(([message, german], _, all) => message !== german && !all.some(([, other]) => other === message))
  .map(([message]) => message)
  .filter(message => /^[A-Z]/.test(message) && !message.includes('%'));

/** Returns the texts in a view that are still in English, including labels, titles and placeholders. */
async function inEnglish(view: Locator): Promise<string[]> {
  const said = await view.evaluate(root => {
    const nodes = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const found: string[] = [];
    while (nodes.nextNode()) {
      found.push(nodes.currentNode.textContent ?? '');
    }
    for (const element of root.querySelectorAll('[aria-label], [title], [placeholder]')) {
      found.push(...['aria-label', 'title', 'placeholder'].map(name => element.getAttribute(name) ?? ''));
    }
    return found.map(text => text.trim());
  });
  return said.filter(text => ENGLISH.includes(text));
}

test.afterAll(async ({ request }) => {
  await request.put(SETTING, { headers: HEADERS, data: { raw: '{}' } });
});

test('with JupyterLab in German, the views are in German and accessible', async ({ page, request }) => {
  const common = { metrics: ['loss', 'val_loss'], tasks: 2, points: 20, epoch: 10 };
  writePastRuns([{ ...common, id: 'deutsch', name: 'ziffern', strategy: 'allreduce', notes: 2, checkpoint: 10 }]);
  const kept = await request.put(SETTING, { headers: HEADERS, data: { raw: '{"locale": "de_DE"}' } });
  expect(kept.ok()).toBe(true);
  await openLab(page);
  const panel = await openPanel(page, 'Verteiltes TensorFlow');
  await expect(panel.getByRole('button', { name: 'Läufe', exact: true })).toBeVisible();
  await openRun(page, 'deutsch', () => document.querySelector('.jp-dtf-plot .bk-Figure') !== null);
  const dashboard = page.locator('.jp-dtf-dashboard:visible');
  await expect(dashboard.getByRole('heading', { name: 'ziffern' })).toBeVisible();
  await picture(page, 'german');
  for (const [name, view] of [
    ['panel', panel],
    ['dashboard', dashboard]
  ] as const) {
    expect.soft(await inEnglish(view), name).toEqual([]);
    await expectAccessible(page, `German ${name}`, view);
  }
  await execute(page, 'jupyter-dtf:open-history');
  const history = page.locator('.jp-dtf-history:visible');
  await expect(history.getByText('ziffern').first()).toBeVisible();
  await picture(page, 'german-history');
  expect(await inEnglish(history)).toEqual([]);
});
