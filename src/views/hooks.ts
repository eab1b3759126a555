import type { ISignal } from '@lumino/signaling';
import React from 'react';

import { messageOf } from '../model/errormessage';

/** Assumed until an element has been measured. */
const DEFAULT_PX = 800;

/** Re-render whenever one of the signals is emitted. */
export function useSignals(...signals: ISignal<unknown, unknown>[]): void {
  const [, count] = React.useReducer((value: number) => value + 1, 0);
  React.useEffect(() => {
    const slot = () => count();
    signals.forEach(signal => signal.connect(slot));
    // Something may have changed between rendering and connecting.
    count();
    return () => signals.forEach(signal => signal.disconnect(slot));
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the signals are the dependencies
  }, signals);
}

/** Seconds since the epoch, updated every second while `running`. */
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

/** Seconds since the epoch, updated every minute, for times displayed in minutes. */
export function useMinute(): number {
  const [now, setNow] = React.useState(() => Date.now() / 1000);
  React.useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 60_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** The current width of an element, px. */
export function useWidth(host: React.RefObject<HTMLElement>): number {
  const [width, setWidth] = React.useState(DEFAULT_PX);
  React.useLayoutEffect(() => {
    const element = host.current;
    if (!element) {
      return;
    }
    const measure = () => element.clientWidth > 0 && setWidth(element.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [host]);
  return width;
}

/** Whether any part of an element is visible, and the page as well. */
export function useSeen(host: React.RefObject<HTMLElement>): boolean {
  const [seen, setSeen] = React.useState(false);
  React.useEffect(() => {
    const element = host.current;
    if (!element) {
      return;
    }
    let near = false;
    const tell = () => setSeen(near && !document.hidden);
    const observer = new IntersectionObserver(entries => {
      near = entries[entries.length - 1]!.isIntersecting;
      tell();
    });
    observer.observe(element);
    document.addEventListener('visibilitychange', tell);
    return () => {
      observer.disconnect();
      document.removeEventListener('visibilitychange', tell);
    };
  }, [host]);
  return seen;
}

/**
 * The result of reading a step; an error message if that failed; undefined until the first one is there. While another
 * step is loading, the previous result stays.
 */
export function useRead<T>(read: (step: number) => Promise<T>, step: number): T | string | undefined {
  const [found, setFound] = React.useState<T | string | undefined>(undefined);
  React.useEffect(() => {
    let gone = false;
    read(step).then(
      value => !gone && setFound(value),
      (error: unknown) => !gone && setFound(messageOf(error))
    );
    return () => {
      gone = true;
    };
  }, [read, step]);
  return found;
}
