import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    environment: 'jsdom',
    include: ['tests/ts/**/*.test.{ts,tsx}'],
    setupFiles: ['tests/ts/setup.ts'],
    restoreMocks: true,
    server: {
      deps: {
        // JupyterLab's packages are CommonJS that import CSS-in-JS and icons; Vite has to see them.
        inline: [/@jupyterlab/, /@jupyter\//, /@rjsf/]
      }
    }
  }
});
