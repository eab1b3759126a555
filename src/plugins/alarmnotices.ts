import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification as Toast } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator, TranslationBundle } from '@jupyterlab/translation';

import type { RunInfo } from '../api/schema';
import { AlarmWatch } from '../model/alarms';
import { formatDuration } from '../model/format';
import { EndWatch, isToldOfEnd } from '../model/runends';
import { reason, secondsTaken } from '../model/runstate';
import { CommandIDs, IDtf } from '../tokens';
import { stateText } from '../views/localizedtext';

/** The text of a notification: `text` is one line; browser notifications also show `more`. */
interface Word {
  about: string;
  kind: 'success' | 'warning' | 'error';
  text: string;
  more: string;
  /** Milliseconds until it closes automatically. */
  autoClose: number | false;
}

const SUCCESS_MS = 15_000;

/**
 * Notifies the user of the end of long runs, and of the alarms that they requested (`notify=`): in the page, and
 * through the browser if the page is not visible.
 */
export const alarms: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:alarms',
  description: 'Notifies the user of the ends and the alarms of runs.',
  autoStart: true,
  requires: [IDtf],
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, dtf: IDtf, translator: ITranslator | null): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const watch = new AlarmWatch();
    const ends = new EndWatch();
    const open = (run: RunInfo) => void app.commands.execute(CommandIDs.openRun, { run: run.id });

    const tell = (run: RunInfo, { about, kind, text, more, autoClose }: Word) => {
      const actions = [{ label: trans.__('Open Dashboard'), callback: () => open(run) }];
      if (mayAsk()) {
        // A browser asks for permission only after a click.
        const callback = () => void window.Notification.requestPermission();
        actions.push({ label: trans.__('Also Notify Me in the Browser'), callback });
      }
      Toast.emit(text, kind, { actions, autoClose });
      if (document.hidden && 'Notification' in window && window.Notification.permission === 'granted') {
        const told = new window.Notification(text, { body: more, tag: `jupyter-dtf-${run.id}-${about}` });
        told.onclick = () => {
          window.focus();
          open(run);
        };
      }
    };
    dtf.runs.changed.connect(() => {
      if (!dtf.runs.isReady) {
        return;
      }
      for (const [run, { about, title, text: more }] of watch.look(dtf.runs.runs)) {
        const kind = about !== 'end' ? 'warning' : run.state === 'succeeded' ? 'success' : 'error';
        const text = about === 'end' ? title : `${dtf.runs.title(run.id)}: ${title}`;
        tell(run, { about, kind, text, more, autoClose: false });
      }
      for (const run of ends.look(dtf.runs.runs)) {
        if (isToldOfEnd(run, dtf.preferences.values)) {
          tell(run, endOf(run, dtf.runs.title(run.id), trans));
        }
      }
    });
  }
};

/** The notification of a long run's end: failures stay until they are closed. */
export function endOf(run: RunInfo, name: string, trans: TranslationBundle): Word {
  const took = formatDuration(secondsTaken(run, 0));
  const why = reason(run);
  if (run.state === 'succeeded') {
    const text = trans.__('%1 has succeeded after %2', name, took);
    return { about: 'end', kind: 'success', text, more: why, autoClose: SUCCESS_MS };
  }
  const text = trans.__('%1: %2 after %3', name, stateText(run.state, trans), took);
  const line = why.split('\n', 1)[0]!;
  return { about: 'end', kind: 'error', text: line === '' ? text : `${text}. ${line}`, more: why, autoClose: false };
}

function mayAsk(): boolean {
  return 'Notification' in window && window.Notification.permission === 'default';
}
