import { FINAL_STATES, type RunInfo, type RunState, type TaskInfo } from '../api/schema';
import { formatValue, metricTitle, unitOf } from './format';
import { terminalText } from './output';

export function isFinal(state: RunState): boolean {
  return FINAL_STATES.includes(state);
}

const STOPPABLE: readonly RunState[] = ['pending', 'launching', 'running', 'restarting', 'pausing', 'paused'];

/** A run that can be told to stop. */
export function canStop(state: RunState): boolean {
  return STOPPABLE.includes(state);
}

/** A run that can end its tasks with a checkpoint, and wait without them. */
export function canPause(run: RunInfo): boolean {
  return run.goes_on && run.state === 'running';
}

/** A run that has ended before its time, and can be gone on with from a checkpoint. */
export function canResume(run: RunInfo): boolean {
  return run.goes_on && run.checkpoint !== null && isFinal(run.state) && run.state !== 'succeeded';
}

/** The part of the run that is done, 0 to 1; null when the total is not known. */
export function fractionDone(run: RunInfo): number | null {
  if (run.state === 'succeeded') {
    return 1;
  }
  const { done, total } = run.progress;
  return total > 0 ? Math.min(1, done / total) : null;
}

/** Seconds left, by the pace so far; null while there is nothing to go by. `now` in seconds since the epoch. */
export function secondsLeft(run: RunInfo, now: number): number | null {
  const fraction = fractionDone(run);
  if (run.state !== 'running' || run.started === null || fraction === null || fraction <= 0.01) {
    return null;
  }
  return Math.max(0, ((now - run.started) * (1 - fraction)) / fraction);
}

/** Seconds that the run took, or has taken by `now`. */
export function secondsTaken(run: RunInfo, now: number): number {
  return Math.max(0, (run.ended ?? now) - (run.started ?? run.created));
}

/** How a task ended, when it did so badly: `SIGKILL`, `exit status 3`, or nothing. */
export function exitText(task: Pick<TaskInfo, 'signal' | 'exit_code'>): string {
  if (task.signal !== '') {
    return task.signal;
  }
  return task.exit_code ? `exit status ${task.exit_code}` : '';
}

/** Why a run did not succeed, in words, without a terminal's colours; empty while there is nothing to say. */
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

/** The metric that stands for the run in a row, which the server chose, and never the machine's. NaN where not finite. */
export function objective(run: RunInfo): [string, number] | null {
  const found = Object.entries(run.headline)[0];
  return found ? [found[0], found[1] ?? NaN] : null;
}

/** That in words: `loss`, and its newest value. */
export function objectiveText(run: RunInfo): [string, string] | null {
  const found = objective(run);
  if (!found) {
    return null;
  }
  const [name, value] = found;
  const wrong = (run.not_finite[name] ?? '').includes('infinite') ? '∞' : 'NaN';
  return [metricTitle(name), Number.isNaN(value) ? wrong : formatValue(value, unitOf(name))];
}

/** What is wrong with the values of a run's metrics, and who holds the others up, a sentence for each. */
export function warningsOf(run: RunInfo): string[] {
  return [...Object.values(run.not_finite), ...Object.values(run.slow)];
}
