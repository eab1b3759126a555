import { expect, Locator, Page, test } from '@playwright/test';
import { writeFileSync } from 'node:fs';

import { execute, openLab, writePastRuns } from '../../tests/ui/lab';

const RUNS = 10_000;
const ROUNDS = 7;

/** Runs `begin` in the page, and returns the milliseconds until `holds` is true there and has been painted. */
async function took(page: Page, begin: string, holds: string): Promise<number> {
  return page.evaluate(
    ([act, seen]) =>
      new Promise<number>(resolve => {
        const now = performance.now();
        // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the code is from this file
        const [start, there] = [new Function(act), new Function(seen)] as [() => void, () => boolean];
        start();
        const look = () =>
          requestAnimationFrame(() => {
            if (there()) {
              setTimeout(() => resolve(performance.now() - now)); // after the frame is painted
            } else {
              look();
            }
          });
        look();
      }),
    [begin, holds] as const
  );
}

const median = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!;

/** Returns code that types a text: React notices a change only if the value is set by the prototype's setter. */
const typed = (text: string) => `
  const find = document.querySelector('.jp-dtf-history-search');
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(find, ${JSON.stringify(text)});
  find.dispatchEvent(new Event('input', { bubbles: true }));`;
const told = (count: number) =>
  `return document.querySelector('.jp-dtf-history [role=status]').textContent.startsWith('${count} of ')`;

test('a list of ten thousand runs, compared with a plain table', async ({ page }) => {
  writePastRuns(
    Array.from({ length: RUNS }, (_, index) => ({
      id: `run-${index}`,
      name: `digits ${index}`,
      metrics: [],
      tasks: 2,
      points: 0,
      age: 60 + index,
      strategy: index % 2 ? 'ps' : 'allreduce',
      parameters: { batch_size: index, epochs: 3, optimizer: index % 3 ? 'Adam' : 'SGD' },
      origin: { model: 'digits', versions: { TensorFlow: '2.21.0', Keras: '3.15.1', Python: '3.12.1' } }
    }))
  );
  await openLab(page);
  const rows: Locator = page.locator('.jp-dtf-history-row[data-run]');
  // Open the list once, so that the page's first use of it is not measured.
  await execute(page, 'jupyter-dtf:open-history');
  await expect(page.getByText(`${RUNS} of ${RUNS}`)).toBeVisible();
  const opened: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await page.evaluate(() => {
      const { jupyterapp } = window as unknown as { jupyterapp: { shell: { currentWidget: { close(): void } } } };
      jupyterapp.shell.currentWidget.close();
    });
    await expect(rows).toHaveCount(0);
    opened.push(
      await took(
        page,
        `void window.jupyterapp.commands.execute('jupyter-dtf:open-history')`,
        `return document.querySelectorAll('.jp-dtf-history-row[data-run]').length > 20`
      )
    );
  }
  const filtered: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const least = RUNS - 10 * (round + 1);
    filtered.push(await took(page, typed(`batch_size >= ${least} and name ~ digits`), told(RUNS - least)));
    filtered.push(await took(page, typed(''), told(RUNS)));
  }
  const grouped: number[] = [];
  for (const column of ['strategy', 'parameters.optimizer', 'created', 'parameters.batch_size', '']) {
    const choose = `
      const choice = document.querySelector('.jp-dtf-history select');
      Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, 'value').set.call(choice, '${column}');
      choice.dispatchEvent(new Event('change', { bubbles: true }));`;
    const there = `return (document.querySelector('.jp-dtf-history-group') !== null) === ${column !== ''}`;
    grouped.push(await took(page, choose, there));
  }
  // The alternative, as a notebook shows a DataFrame: a table of all rows, in which unwanted rows are hidden.
  const plain: number[] = [];
  const hidden: number[] = [];
  for (let round = 0; round < 3; round++) {
    plain.push(
      await took(
        page,
        `
        document.getElementById('dtf-plain')?.remove();
        const cells = index => ['digits ' + index, 'succeeded', index, 3, index % 3 ? 'Adam' : 'SGD', 2, '2.21.0', '3.15.1'];
        const line = index => '<tr><td>' + cells(index).join('</td><td>') + '</td></tr>';
        const host = Object.assign(document.createElement('div'), { id: 'dtf-plain' });
        host.style = 'position: fixed; z-index: 9; inset: 0; overflow: auto; background: white';
        host.innerHTML = '<table>' + Array.from({ length: ${RUNS} }, (_, index) => line(index)).join('') + '</table>';
        document.body.append(host);`,
        `return document.querySelectorAll('#dtf-plain tr').length === ${RUNS}`
      )
    );
    hidden.push(
      await took(
        page,
        `document.querySelectorAll('#dtf-plain tr').forEach(row => (row.hidden = Number(row.children[2].textContent) < ${RUNS - 10}))`,
        `return document.querySelector('#dtf-plain tr').hidden`
      )
    );
  }
  writeFileSync(
    process.env.DTF_BENCH_RESULT ?? 'history.json',
    JSON.stringify({
      opened_ms: median(opened),
      filtered_ms: median(filtered),
      slowest_filter_ms: Math.max(...filtered),
      grouped_ms: Math.max(...grouped),
      plain_ms: median(plain),
      hidden_ms: median(hidden)
    })
  );
});
