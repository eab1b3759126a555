import { defineConfig } from '@playwright/test';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

// Every process of the test run reads this file. The first one chooses the directory, and the others inherit it.
if (!process.env.DTF_UI_DIRECTORY) {
  const own = mkdtempSync(path.join(tmpdir(), 'dtf-ui-'));
  process.env.DTF_UI_DIRECTORY = own;
  process.on('exit', () => rmSync(own, { recursive: true, force: true, maxRetries: 3 })); // the server has stopped
}
process.env.DTF_UI_PORT ??= String(20000 + (process.pid % 20000));
const directory = process.env.DTF_UI_DIRECTORY;
const port = Number(process.env.DTF_UI_PORT);
const root = path.join(directory, 'root');
const artifacts = path.join(__dirname, '../../artifacts');
mkdirSync(artifacts, { recursive: true });
mkdirSync(root, { recursive: true });
mkdirSync(path.join(directory, 'tmp'), { recursive: true });
cpSync(path.join(__dirname, '../../examples'), path.join(root, 'examples'), { recursive: true });

const overrides = {
  '@jupyterlab/apputils-extension:notification': { fetchNews: 'false', checkForUpdates: false },
  '@jupyterlab/translation-extension:plugin': { locale: 'en' } // independent of the machine's language
};
mkdirSync(path.join(directory, 'config', 'labconfig'), { recursive: true });
writeFileSync(path.join(directory, 'config', 'labconfig', 'default_setting_overrides.json'), JSON.stringify(overrides));

/** The tests use a real Jupyter server with its own directories. Authentication and XSRF protection are enabled. */
export default defineConfig({
  testDir: __dirname,
  testIgnore: '**/pictures.spec.ts', // not tests, but `make pictures`
  outputDir: path.join(artifacts, 'ui'),
  globalTeardown: path.join(__dirname, 'teardown.ts'),
  workers: 1,
  // These limits apply to everything that tests wait for, so that a failure says what did not happen. Some tests open
  // all views, which takes two and a half minutes on a fast machine that runs the Python tests at the same time.
  timeout: 600_000,
  expect: { timeout: 240_000 },
  reporter: 'list',
  use: {
    actionTimeout: 240_000,
    baseURL: `http://127.0.0.1:${port}`,
    viewport: { width: 1400, height: 900 },
    launchOptions: { executablePath: process.env.BROWSER_PATH || '/usr/bin/chromium' },
    screenshot: 'only-on-failure'
  },
  webServer: {
    command:
      `exec python -m jupyterlab --config=${path.join(__dirname, 'jupyter_server_config.py')} --port=${port} ` +
      `>${path.join(artifacts, 'ui-server.log')} 2>&1`,
    url: `http://127.0.0.1:${port}/api?token=test`,
    timeout: 120_000,
    gracefulShutdown: { signal: 'SIGINT', timeout: 10_000 },
    env: {
      ...(process.env as Record<string, string>),
      DTF_UI_ROOT: root,
      PYTHONPATH: [path.join(__dirname, '../languagepack'), process.env.PYTHONPATH]
        .filter(Boolean)
        .join(path.delimiter),
      TMPDIR: path.join(directory, 'tmp'), // the files that killed processes leave are removed with the directory
      JUPYTER_CONFIG_DIR: path.join(directory, 'config'),
      JUPYTER_DATA_DIR: path.join(directory, 'data'),
      JUPYTER_RUNTIME_DIR: path.join(directory, 'runtime'),
      JUPYTER_DTF_DATA_DIR: path.join(directory, 'dtf'),
      JUPYTERLAB_SETTINGS_DIR: path.join(directory, 'settings'),
      JUPYTERLAB_WORKSPACES_DIR: path.join(directory, 'workspaces'),
      TF_CPP_MIN_LOG_LEVEL: '3'
    }
  }
});
