import { expect, Locator, Page } from '@playwright/test';
import axe, { type AxeResults } from 'axe-core';

import { setTheme } from './lab';

/** What weighs so much that a view is not to be used by somebody. */
const GRAVE = ['serious', 'critical'];

/**
 * Nothing in a view is an obstacle, in light and in dark. What it finds does not end the test: the views after it are looked
 * at as well. The page is left in light.
 */
export async function expectAccessible(page: Page, name: string, view: Locator): Promise<void> {
  for (const dark of [true, false]) {
    await setTheme(page, dark);
    // It lies over the page while a theme is loaded, and contrasts are not to be told under it.
    await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
    await expect(view.first()).toBeVisible();
    const found = await obstacles(page, view);
    expect.soft(found, `${name}, ${dark ? 'dark' : 'light'}`).toEqual([]);
  }
}

/** A line for each rule of axe's that is broken gravely, and element that breaks it. */
async function obstacles(page: Page, view: Locator): Promise<string[]> {
  if (!(await page.evaluate(() => 'axe' in window))) {
    await page.evaluate(axe.source);
  }
  const { violations } = await view.evaluateAll(
    nodes =>
      (window as unknown as { axe: { run(context: object, options: object): Promise<AxeResults> } }).axe.run(
        { include: nodes },
        { resultTypes: ['violations'] }
      ),
    undefined
  );
  return violations
    .filter(({ impact }) => GRAVE.includes(impact ?? ''))
    .flatMap(({ id, nodes }) =>
      nodes.map(({ html, any, all, none }) => `${id}: ${html.slice(0, 160)} ${why([...any, ...all, ...none])}`)
    );
}

function why(checks: readonly { message: string }[]): string {
  return checks.map(({ message }) => message).join('; ');
}
