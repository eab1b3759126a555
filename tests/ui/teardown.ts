import { clusterProcesses } from './lab';

/** End what a failed test has left: its cluster would go on for as long as its run does. */
export default function teardown(): void {
  for (const line of clusterProcesses()) {
    try {
      process.kill(Number(line.split(' ')[0]), 'SIGKILL');
    } catch {
      continue; // it ended with another
    }
  }
}
