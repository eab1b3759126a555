import type { Page } from '@playwright/test';

const FIGURES = [
  { metric: 'cpu', plot: 'CPU', line: '', unit: 'cores', mean: 12 },
  { metric: 'memory_used', plot: 'memory', line: 'used', unit: 'bytes', mean: 2 ** 36 },
  { metric: 'network_in', plot: 'network', line: 'in', unit: 'bytes_per_second', mean: 2 ** 30 },
  { metric: 'network_out', plot: 'network', line: 'out', unit: 'bytes_per_second', mean: 2 ** 29 }
];
// The maximum number of hosts for which the server keeps figures.
const MOST_KNOWN = 256;
const POINTS = 60;

/** Returns the description of a host. One of the hosts has a higher load than the others. */
function host(index: number): object {
  return {
    name: `node-${index}`,
    address: `tls://10.0.${index >> 8}.${index & 255}:4000`,
    machine: `node-${index}`,
    threads: 16,
    cpu: index === 217 ? 16 : 8 + (index % 7) / 10,
    memory_bytes: 2 ** 38,
    memory_used_bytes: 2 ** 36 + (index % 11) * 2 ** 28,
    gpus: Array.from({ length: 8 }, (_, gpu) => ({
      index: gpu,
      name: 'H100',
      uuid: `GPU-${index}-${gpu}`,
      memory_bytes: 80 * 2 ** 30,
      memory_used_bytes: 40 * 2 ** 30,
      utilization: index === 400 && gpu === 3 ? 0.05 : 0.9
    })),
    warm: true,
    unguarded: '',
    slots: 0,
    drawn: '',
    problem: index === 23 ? 'Keras 3.14.0 here, 3.15.1 there' : ''
  };
}

/** Makes the page show an additional, simulated cluster `past` with `count` hosts, too many for a real machine. */
export async function withHosts(page: Page, count: number): Promise<void> {
  const hosts = Array.from({ length: count }, (_, index) => host(index));
  const cluster = {
    name: 'past', kind: 'ssh', state: 'running', jobs: { worker: count }, hosts, tasks: [], created: 1, message: '',
    warnings: [], notes: [], coming: [], active_runs: 0, silent_s: 0, incompatible: ''
  }; // prettier-ignore
  await page.routeWebSocket(/\/jupyter-dtf\/api\/events/, socket => {
    const server = socket.connectToServer();
    server.onMessage(message => {
      const told = typeof message === 'string' && message.includes('"clusters"') ? JSON.parse(message) : null;
      if (told?.type === 'clusters') {
        told.clusters.push(cluster);
        socket.send(JSON.stringify(told));
      } else {
        socket.send(message);
      }
    });
  });
  await page.route(/\/jupyter-dtf\/api\/clusters\/past\/machines/, route => {
    const now = Date.now() / 1000;
    const after = Number(new URL(route.request().url()).searchParams.get('after') ?? 0);
    const time = Array.from({ length: POINTS }, (_, at) => now - 2 * (POINTS - at)).filter(at => at > after);
    const series = FIGURES.flatMap(({ mean, ...figure }) =>
      Array.from({ length: Math.min(count, MOST_KNOWN) }, (_, index) => ({
        host: `node-${index}`,
        ...figure,
        time,
        value: time.map(
          (at, point) => mean * (1 + 0.1 * Math.sin(at / 9 + index)) * (index === 217 && point > 20 ? 2 : 1)
        )
      }))
    );
    return route.fulfill({ json: series });
  });
}
