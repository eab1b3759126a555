import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification as Toast } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import type { Alarm, RunInfo } from '../api/schema';
import { AlarmWatch } from '../model/alarms';
import { CommandIDs, IDtf } from '../tokens';

/** Tells of what a person wanted to be told of runs (`notify=`): here, and by the browser where the page is not looked at. */
export const alarms: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:alarms',
  description: 'Notifications of the alarms of runs.',
  autoStart: true,
  requires: [IDtf],
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, dtf: IDtf, translator: ITranslator | null): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_dtf');
    const watch = new AlarmWatch();
    const open = (run: RunInfo) => void app.commands.execute(CommandIDs.openRun, { run: run.id });

    const tell = (run: RunInfo, alarm: Alarm) => {
      const failed = alarm.about === 'end' && run.state !== 'succeeded';
      const actions = [{ label: trans.__('Open Dashboard'), callback: () => open(run) }];
      if (mayAsk()) {
        // A browser asks a person only after a click.
        const callback = () => void window.Notification.requestPermission();
        actions.push({ label: trans.__('Tell Me in the Browser as Well'), callback });
      }
      const text = alarm.about === 'end' ? alarm.title : `${dtf.runs.title(run.id)}: ${alarm.title}`;
      const kind = failed ? 'error' : alarm.about === 'end' ? 'success' : 'warning';
      Toast.emit(text, kind, { actions, autoClose: false });
      if (document.hidden && 'Notification' in window && window.Notification.permission === 'granted') {
        const told = new window.Notification(text, { body: alarm.text, tag: `jupyter-dtf-${run.id}-${alarm.about}` });
        told.onclick = () => {
          window.focus();
          open(run);
        };
      }
    };
    dtf.runs.changed.connect(() => {
      if (dtf.runs.isReady) {
        watch.look(dtf.runs.runs).forEach(([run, alarm]) => tell(run, alarm));
      }
    });
  }
};

function mayAsk(): boolean {
  return 'Notification' in window && window.Notification.permission === 'default';
}
