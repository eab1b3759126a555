import type { ISignal } from '@lumino/signaling';
import React from 'react';

/** Render again whenever one of the signals is emitted. */
export function useSignals(...signals: ISignal<unknown, unknown>[]): void {
  const [, count] = React.useReducer((value: number) => value + 1, 0);
  React.useEffect(() => {
    const slot = () => count();
    signals.forEach(signal => signal.connect(slot));
    // What changed between rendering and connecting.
    count();
    return () => signals.forEach(signal => signal.disconnect(slot));
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the signals are the dependencies
  }, signals);
}

/** Seconds since the epoch, renewed every second while `running`. */
export function useNow(running: boolean): number {
  const [now, setNow] = React.useState(() => Date.now() / 1000);
  React.useEffect(() => {
    if (!running) {
      return;
    }
    const timer = setInterval(() => setNow(Date.now() / 1000), 1000);
    return () => clearInterval(timer);
  }, [running]);
  return now;
}
