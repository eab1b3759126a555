import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';

import { IDtf } from '../tokens';

const KEPT = 'jupyter_dtf:plots';

/** Passes the user's settings from the settings editor to the views. */
export const settings: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:settings',
  description: 'Settings of the run dashboards.',
  autoStart: true,
  requires: [IDtf, ISettingRegistry],
  optional: [IStateDB],
  activate: async (
    _app: JupyterFrontEnd,
    dtf: IDtf,
    registry: ISettingRegistry,
    state: IStateDB | null
  ): Promise<void> => {
    if (state) {
      void keepChoices(dtf, state);
    }
    try {
      const loaded = await registry.load(settings.id);
      const apply = () => dtf.preferences.set(loaded.composite);
      loaded.changed.connect(apply);
      apply();
    } catch (reason) {
      console.warn('jupyter_dtf: the settings could not be read, so the defaults are used:', reason);
    }
  }
};

/** Store with the page's layout which headings are open and which metrics are pinned. */
async function keepChoices(dtf: IDtf, state: IStateDB): Promise<void> {
  const { plots } = dtf.preferences;
  try {
    plots.load(await state.fetch(KEPT));
  } catch (reason) {
    console.warn('jupyter_dtf: the open headings and pinned metrics could not be read:', reason);
  }
  plots.changed.connect(() => {
    void state.save(KEPT, { ...plots.save() });
  });
}
