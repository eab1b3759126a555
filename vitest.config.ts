import { defineConfig } from 'vitest/config';

const TESTS = 'tests/ts/**/*.test.{ts,tsx}';
/** Files that put something in the place of a module or of the browser's, before others have taken hold of it. */
const ALONE = ['tests/ts/plots/grid.test.ts', 'tests/ts/views/metrics.test.tsx'];

export default defineConfig({
  test: {
    environment: 'jsdom',
    setupFiles: ['tests/ts/setup.ts'],
    testTimeout: 120_000, // the only clock of a test: what it waits for, it waits for until then (tests/ts/setup.ts)
    restoreMocks: true,
    unstubGlobals: true,
    server: {
      deps: {
        // JupyterLab's packages are CommonJS that import CSS-in-JS and icons; Vite has to see them.
        inline: [/@jupyterlab/, /@jupyter\//, /@rjsf/]
      }
    },
    // To load JupyterLab for each file takes four fifths of the time: the files of a project share one page.
    projects: [
      { extends: true, test: { name: 'shared', include: [TESTS], exclude: ALONE, isolate: false } },
      { extends: true, test: { name: 'alone', include: ALONE } }
    ]
  }
});
