import type { RunInfo } from '../api/schema';
import { terminalText } from './output';

/** A line of the user's own program in a traceback. */
export interface OwnLine {
  file: string;
  line: number;
  code: string;
}

// Installed packages are not the user's own code.
const FOREIGN = /(site|dist)-packages|[/\\]lib[/\\]python\d|[/\\]jupyter_dtf[/\\]|^<frozen/;
const FRAME = /^ *File "([^"]+)", line (\d+)[^\n]*\n( +[^\n]*)?/gm;

/** The innermost line of the user's own code in a traceback; null if there is none. */
export function ownLine(traceback: string): OwnLine | null {
  const frames = [...traceback.matchAll(FRAME)].filter(([, file]) => !FOREIGN.test(file!));
  const last = frames[frames.length - 1];
  if (!last) {
    return null;
  }
  const [, file = '', line = '0', code = ''] = last;
  // The kernel names a cell's file by a number that means nothing to the user.
  const name = /ipykernel_|^<ipython-input|^<cell/.test(file) ? '' : (file.split(/[/\\]/).pop() ?? file);
  return { file: name, line: Number(line), code: code.trim().startsWith('File ') ? '' : code.trim() };
}

/** The traceback of the first task that failed; empty if there is none. */
export function tracebackOf(run: RunInfo): string {
  const failed = run.tasks.find(task => task.state === 'failed' && task.traceback !== '');
  return (failed?.traceback ?? '').split('\n').map(terminalText).join('\n').trimEnd();
}
