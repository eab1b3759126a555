import type { RunInfo } from '../api/schema';
import { terminalText } from './output';

/** A line of the person's own program, as a traceback names it. */
export interface OwnLine {
  file: string;
  line: number;
  code: string;
}

// What is installed is not the person's own.
const FOREIGN = /(site|dist)-packages|[/\\]lib[/\\]python\d|[/\\]jupyter_dtf[/\\]|^<frozen/;
const FRAME = /^ *File "([^"]+)", line (\d+)[^\n]*\n( +[^\n]*)?/gm;

/** The innermost line of the person's own in a traceback; null where there is none. */
export function ownLine(traceback: string): OwnLine | null {
  const frames = [...traceback.matchAll(FRAME)].filter(([, file]) => !FOREIGN.test(file!));
  const last = frames[frames.length - 1];
  if (!last) {
    return null;
  }
  const [, file = '', line = '0', code = ''] = last;
  // A cell's file is named by the kernel, with a number that says nothing to anybody.
  const name = /ipykernel_|^<ipython-input|^<cell/.test(file) ? '' : (file.split(/[/\\]/).pop() ?? file);
  return { file: name, line: Number(line), code: code.trim().startsWith('File ') ? '' : code.trim() };
}

/** The traceback of the task that failed first; empty without one. */
export function tracebackOf(run: RunInfo): string {
  const failed = run.tasks.find(task => task.state === 'failed' && task.traceback !== '');
  return (failed?.traceback ?? '').split('\n').map(terminalText).join('\n').trimEnd();
}
