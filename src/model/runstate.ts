import { FINAL_STATES, type RunInfo, type RunState, type TaskInfo } from '../api/schema';
import { formatValue, metricTitle, unitOf } from './format';
import { terminalText } from './output';

export function isFinal(state: RunState): boolean {
  return FINAL_STATES.includes(state);
}

const STOPPABLE: readonly RunState[] = ['pending', 'launching', 'running', 'restarting', 'pausing', 'paused'];

/** Whether a run can be stopped. */
export function canStop(state: RunState): boolean {
  return STOPPABLE.includes(state);
}

/** Whether a run can be paused: write a checkpoint, end its tasks, and wait. */
export function canPause(run: RunInfo): boolean {
  return run.goes_on && run.state === 'running';
}

/** Whether a run ended early and can be resumed from a checkpoint. */
export function canResume(run: RunInfo): boolean {
  return run.goes_on && run.checkpoint !== null && isFinal(run.state) && run.state !== 'succeeded';
}

/** The completed fraction of the run, 0 to 1; null if the total is unknown. */
export function fractionDone(run: RunInfo): number | null {
  if (run.state === 'succeeded') {
    return 1;
  }
  const { done, total } = run.progress;
  return total > 0 ? Math.min(1, done / total) : null;
}

/**
 * Estimated seconds left at the average pace so far; null if it cannot be estimated. `now` in seconds since the epoch.
 */
export function secondsLeft(run: RunInfo, now: number): number | null {
  const fraction = fractionDone(run);
  if (run.state !== 'running' || run.started === null || fraction === null || fraction <= 0.01) {
    return null;
  }
  return Math.max(0, ((now - run.started) * (1 - fraction)) / fraction);
}

/** The duration of the run in seconds, up to `now` if it is still running. */
export function secondsTaken(run: RunInfo, now: number): number {
  return Math.max(0, (run.ended ?? now) - (run.started ?? run.created));
}

/** How a task ended if it failed: `SIGKILL`, `exit status 3`; otherwise empty. */
export function exitText(task: Pick<TaskInfo, 'signal' | 'exit_code'>): string {
  if (task.signal !== '') {
    return task.signal;
  }
  return task.exit_code ? `exit status ${task.exit_code}` : '';
}

/** Why a run did not succeed, as text without terminal colors; empty if there is nothing to report. */
export function reason(run: RunInfo): string {
  return rawReason(run).split('\n').map(terminalText).join('\n');
}

function rawReason(run: RunInfo): string {
  if (run.message !== '') {
    return run.message;
  }
  const failed = run.tasks.find(task => task.state === 'failed');
  if (!failed) {
    return '';
  }
  const how = failed.message !== '' ? failed.message : exitText(failed);
  return how !== '' ? `${failed.task}: ${how}` : failed.task;
}

/** The metric that represents the run in a list: chosen by the server, never a machine metric. NaN if not finite. */
export function objective(run: RunInfo): [string, number] | null {
  const found = Object.entries(run.headline)[0];
  return found ? [found[0], found[1] ?? NaN] : null;
}

/** The representative metric as text: `loss`, and its latest value. */
export function objectiveText(run: RunInfo): [string, string] | null {
  const found = objective(run);
  if (!found) {
    return null;
  }
  const [name, value] = found;
  const wrong = (run.not_finite[name] ?? '').includes('infinite') ? '∞' : 'NaN';
  return [metricTitle(name), Number.isNaN(value) ? wrong : formatValue(value, unitOf(name))];
}

/** Warnings about non-finite metrics and about tasks that delay the others, one sentence each. */
export function warningsOf(run: RunInfo): string[] {
  return [...Object.values(run.not_finite), ...Object.values(run.slow)];
}
