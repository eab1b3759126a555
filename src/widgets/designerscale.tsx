import React from 'react';

import type { Hardware } from '../api/schema';
import { ForecastModel } from '../model/forecasts';
import type { IDtf } from '../tokens';
import { ForecastView } from '../views/forecast/forecastview';
import { PlanBox } from '../views/forecast/planbox';
import { useSeen, useSignals } from '../views/hooks';
import type { DesignerOptions, OpenDesign } from './designeroptions';

/** The built-in devices and networks; null until they have been received. */
export function useHardware(dtf: IDtf): Hardware | null {
  const [hardware, setHardware] = React.useState<Hardware | null>(null);
  React.useEffect(() => {
    let gone = false;
    dtf.api.hardware().then(
      found => !gone && setHardware(found),
      (reason: unknown) => console.warn('jupyter_dtf: could not fetch the hardware:', reason)
    );
    return () => {
      gone = true;
    };
  }, [dtf]);
  return hardware;
}

/** The *Scale* view of a design. Computed while visible, and again when the design has changed. */
export function DesignScale(props: { document: OpenDesign; options: DesignerOptions }): React.ReactElement {
  const { document, options } = props;
  const { dtf, trans, themeChanged } = options;
  const { design: model } = document;
  useSignals(model.changed);
  const host = React.useRef<HTMLDivElement>(null);
  const seen = useSeen(host);
  const hardware = useHardware(dtf);
  const forecasts = React.useMemo(
    () => new ForecastModel((settings, signal) => dtf.api.forecastDesign({ design: model.design, settings }, signal)),
    [dtf, model]
  );
  const hasModel = model.design.model !== null;
  const { design } = model;
  React.useEffect(() => {
    if (seen && hasModel) {
      forecasts.refresh();
      return () => forecasts.rest();
    }
    return;
  }, [forecasts, seen, hasModel, design]);
  return (
    <div ref={host} className="jp-dtf-scale-tab">
      {hasModel ? (
        <>
          <ForecastView
            model={forecasts}
            hardware={hardware}
            copy={text => options.copy(text)}
            themeChanged={themeChanged}
            trans={trans}
          />
          <PlanBox
            settings={forecasts.settings}
            plan={(target, settings) => dtf.api.planDesign({ design: model.design, target, settings })}
            openDesign={plan => options.openDesign(document, plan)}
            trans={trans}
          />
        </>
      ) : (
        <p className="jp-dtf-none jp-dtf-faint">{trans.__('A forecast needs a model: choose one under Placement.')}</p>
      )}
    </div>
  );
}
