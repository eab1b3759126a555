import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { IDtf } from '../tokens';

/** What the person set, from the settings editor to the views. */
export const settings: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_dtf:settings',
  description: 'Settings of the run dashboards.',
  autoStart: true,
  requires: [IDtf, ISettingRegistry],
  activate: async (_app: JupyterFrontEnd, dtf: IDtf, registry: ISettingRegistry): Promise<void> => {
    try {
      const loaded = await registry.load(settings.id);
      const apply = () => dtf.preferences.set(loaded.composite);
      loaded.changed.connect(apply);
      apply();
    } catch (reason) {
      console.warn('jupyter_dtf: the settings could not be read, the defaults are used:', reason);
    }
  }
};
