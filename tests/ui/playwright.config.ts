import { defineConfig } from '@playwright/test';
import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

// The configuration is read by every process of the run: the first one chooses the directory, the others inherit it.
process.env.DTF_UI_DIRECTORY ??= mkdtempSync(path.join(tmpdir(), 'dtf-ui-'));
process.env.DTF_UI_PORT ??= String(20000 + (process.pid % 20000));
const directory = process.env.DTF_UI_DIRECTORY;
const port = Number(process.env.DTF_UI_PORT);
const root = path.join(directory, 'root');
mkdirSync(root, { recursive: true });
cpSync(path.join(__dirname, '../../examples'), path.join(root, 'examples'), { recursive: true });

const overrides = { '@jupyterlab/apputils-extension:notification': { fetchNews: 'false', checkForUpdates: false } };
mkdirSync(path.join(directory, 'config', 'labconfig'), { recursive: true });
writeFileSync(path.join(directory, 'config', 'labconfig', 'default_setting_overrides.json'), JSON.stringify(overrides));

/** A real Jupyter server, its directories its own. Token and XSRF protection stay on. */
export default defineConfig({
  testDir: __dirname,
  outputDir: path.join(__dirname, '../../artifacts/ui'),
  globalTeardown: path.join(__dirname, 'teardown.ts'),
  workers: 1,
  timeout: 150_000,
  expect: { timeout: 45_000 },
  reporter: 'list',
  use: {
    actionTimeout: 30_000,
    baseURL: `http://127.0.0.1:${port}`,
    viewport: { width: 1400, height: 900 },
    launchOptions: { executablePath: process.env.BROWSER_PATH || '/usr/bin/chromium' },
    screenshot: 'only-on-failure'
  },
  webServer: {
    command: `python -m jupyterlab --config=${path.join(__dirname, 'jupyter_server_config.py')} --port=${port}`,
    url: `http://127.0.0.1:${port}/api?token=test`,
    timeout: 120_000,
    gracefulShutdown: { signal: 'SIGINT', timeout: 10_000 },
    env: {
      ...(process.env as Record<string, string>),
      DTF_UI_ROOT: root,
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
