import { expect, Locator, Page } from '@playwright/test';
import axe, { type AxeResults } from 'axe-core';

import { setTheme } from './lab';

/** The impacts of violations that make a view unusable for some people. */
const GRAVE = ['serious', 'critical'];

/**
 * Expects no grave violations of axe's rules in a view, in the light and the dark theme. Violations do not end the test,
 * so the views after this one are checked as well. Leaves the page in the light theme.
 */
export async function expectAccessible(page: Page, name: string, view: Locator): Promise<void> {
  for (const dark of [true, false]) {
    await setTheme(page, dark);
    // The splash screen covers the page while a theme is loaded, so contrasts cannot be determined.
    await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
    await expect(view.first()).toBeVisible();
    const found = await obstacles(page, view);
    expect.soft(found, `${name}, ${dark ? 'dark' : 'light'}`).toEqual([]);
  }
}

/** Returns a line for each grave violation of one of axe's rules by an element. */
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
