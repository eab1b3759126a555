import { defineConfig } from '@playwright/test';

import tests from './playwright.config';

/**
 * Takes screenshots of all views, for people to look at: `make pictures`. The server is the same as in the tests. The
 * designer's, including those in the README, are taken by its own test, which trains a placed model, and are in
 * artifacts/screenshots.
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
