import { clusterProcesses } from './lab';

/** Kills the clusters that failed tests have left, which would otherwise run for as long as their runs. */
export default function teardown(): void {
  for (const line of clusterProcesses()) {
    try {
      process.kill(Number(line.split(' ')[0]), 'SIGKILL');
    } catch {
      continue; // it has ended together with another process
    }
  }
}
