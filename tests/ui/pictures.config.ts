import { defineConfig } from '@playwright/test';

import tests from './playwright.config';

/**
 * Pictures of all views, for people to look at: `make pictures`. The server is that of the tests. The designer's are taken on
 * the way of its own test, which trains what it draws; they are in artifacts/screenshots, README's among them.
 */
export default defineConfig({
  ...tests,
  testIgnore: [],
  timeout: 600_000,
  projects: [
    { name: 'views', testMatch: '**/pictures.spec.ts' },
    { name: 'designer', testMatch: '**/designer-placement.spec.ts', dependencies: ['views'] }
  ]
});
