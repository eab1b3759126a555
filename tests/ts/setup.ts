import { cleanup, configure } from '@testing-library/react';
import { afterEach, beforeEach, expect, vi } from 'vitest';

// Browser features that JupyterLab's packages need and jsdom does not have.
class Observer {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}
Object.assign(globalThis, {
  ResizeObserver: Observer,
  IntersectionObserver: Observer,
  DragEvent: class DragEvent extends MouseEvent {},
  requestIdleCallback: (callback: () => void) => setTimeout(callback, 0),
  cancelIdleCallback: (id: number) => clearTimeout(id)
});
window.matchMedia = ((query: string) => ({
  matches: false,
  media: query,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
  addListener: () => undefined, // of an older form of this interface, which JupyterLab's toolbar uses
  removeListener: () => undefined
})) as unknown as typeof window.matchMedia;

configure({ asyncUtilTimeout: 100_000 }); // slightly less than the time limit of a test

// Warnings are errors, including React's.
let complaints: string[] = [];
beforeEach(() => {
  complaints = [];
  for (const level of ['error', 'warn'] as const) {
    vi.spyOn(console, level).mockImplementation((...args: unknown[]) => {
      complaints.push(args.map(String).join(' '));
    });
  }
});
afterEach(() => {
  cleanup();
  expect(complaints).toEqual([]);
});
