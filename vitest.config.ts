import { defineConfig } from 'vitest/config';

const TESTS = 'tests/ts/**/*.test.{ts,tsx}';
/** Files that replace a module, or an object of the browser, before other files have imported or used it. */
const ALONE = ['tests/ts/plots/grid.test.ts', 'tests/ts/views/metrics.test.tsx'];

export default defineConfig({
  test: {
    environment: 'jsdom',
    setupFiles: ['tests/ts/setup.ts'],
    testTimeout: 120_000, // the only time limit: tests wait for events until then (tests/ts/setup.ts)
    restoreMocks: true,
    unstubGlobals: true,
    server: {
      deps: {
        // JupyterLab's packages are CommonJS and import styles and icons, so Vite has to process them.
        inline: [/@jupyterlab/, /@jupyter\//, /@rjsf/]
      }
    },
    // Loading JupyterLab for each file would take four fifths of the time, so the files of a project share one page.
    projects: [
      { extends: true, test: { name: 'shared', include: [TESTS], exclude: ALONE, isolate: false } },
      { extends: true, test: { name: 'alone', include: ALONE } }
    ]
  }
});
