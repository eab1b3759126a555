import type { Page } from '@playwright/test';

/** Returns the frames per second while `act` runs. */
export async function framesWhile(page: Page, act: () => Promise<void>): Promise<number> {
  await page.evaluate(() => {
    const count = { frames: 0, begin: performance.now(), end: 0 };
    Object.assign(window, { dtfFrames: count });
    const frame = () => {
      count.frames += 1;
      if (count.end === 0) {
        requestAnimationFrame(frame);
      }
    };
    requestAnimationFrame(frame);
  });
  await act();
  return page.evaluate(() => {
    const count = (window as unknown as { dtfFrames: { frames: number; begin: number; end: number } }).dtfFrames;
    count.end = performance.now();
    return (1000 * count.frames) / (count.end - count.begin);
  });
}
