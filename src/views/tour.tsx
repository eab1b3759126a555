import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { Box, popoverPosition } from '../model/popoverposition';
import { SmallButton } from './controls';

export interface TourStep {
  title: string;
  text: string;
  /** CSS selectors of the element that the step explains; the first visible match is used. */
  anchors: readonly string[];
}

const SIZE = { width: 320, height: 180 };

/** A tour of several steps, each shown next to the element that it explains. Escape ends it. */
export function Tour(props: {
  steps: readonly TourStep[];
  trans: TranslationBundle;
  onEnd: () => void;
}): React.ReactElement {
  const { steps, trans, onEnd } = props;
  const [at, setAt] = React.useState(0);
  const id = React.useId();
  const popover = React.useRef<HTMLDivElement>(null);
  const step = steps[at]!;
  const anchor = useBox(step.anchors);
  const isLast = at === steps.length - 1;
  // Screen readers read each step when it appears.
  React.useEffect(() => popover.current?.focus(), [at]);
  const size = {
    width: popover.current?.offsetWidth || SIZE.width,
    height: popover.current?.offsetHeight || SIZE.height
  };
  const page = { width: window.innerWidth, height: window.innerHeight };
  const middle = { left: page.width / 2, top: page.height / 3, width: 0, height: 0 };
  return (
    <>
      {anchor && <div className="jp-dtf-tour-mark" aria-hidden="true" style={{ ...anchor }} />}
      <div
        ref={popover}
        className="jp-dtf-tour"
        role="dialog"
        aria-labelledby={`${id}-title`}
        aria-describedby={`${id}-text`}
        tabIndex={-1}
        style={popoverPosition(anchor ?? middle, size, page)}
        onKeyDown={event => {
          if (event.key === 'Escape') {
            event.stopPropagation();
            onEnd();
          }
        }}
      >
        <h2 id={`${id}-title`}>{step.title}</h2>
        <p id={`${id}-text`}>{step.text}</p>
        <footer>
          <span className="jp-dtf-faint">{trans.__('Step %1 of %2', at + 1, steps.length)}</span>
          {!isLast && <SmallButton onClick={onEnd}>{trans.__('End tour')}</SmallButton>}
          {at > 0 && <SmallButton onClick={() => setAt(at - 1)}>{trans.__('Back')}</SmallButton>}
          <SmallButton accent onClick={() => (isLast ? onEnd() : setAt(at + 1))}>
            {isLast ? trans.__('Done') : trans.__('Next')}
          </SmallButton>
        </footer>
      </div>
    </>
  );
}

/** The position of the first visible element, kept up to date; null if none is visible. */
function useBox(selectors: readonly string[]): Box | null {
  const [box, setBox] = React.useState<Box | null>(null);
  React.useLayoutEffect(() => {
    const measure = () => {
      const rects = selectors
        .flatMap(selector => [...document.querySelectorAll(selector)])
        .map(element => element.getBoundingClientRect());
      const found = rects.find(({ width, height }) => width > 0 && height > 0);
      const { left = 0, top = 0, width = 0, height = 0 } = found ?? {};
      setBox(found ? { left, top, width, height } : null);
    };
    measure();
    // Content above it may grow at any time.
    const grown = new ResizeObserver(measure);
    [document.body, ...selectors.flatMap(each => [...document.querySelectorAll(each)])].forEach(each =>
      grown.observe(each)
    );
    window.addEventListener('resize', measure);
    window.addEventListener('scroll', measure, true);
    return () => {
      grown.disconnect();
      window.removeEventListener('resize', measure);
      window.removeEventListener('scroll', measure, true);
    };
  }, [selectors]);
  return box;
}
