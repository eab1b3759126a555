import React from 'react';

import { scrollParent } from '../plots/domhelpers';

// Number of rows that are added and removed together.
const CHUNK = 50;
// Rows are rendered when they are this close to the view, in pixels.
const NEAR = 600;

/** Observes whether an element is near the view; without a layout, as in unit tests, everything is. */
type Watch = (node: Element, tell: (near: boolean) => void) => () => void;

function useWatch(host: React.RefObject<HTMLElement>): Watch {
  const told = React.useRef(new Map<Element, (near: boolean) => void>());
  const observer = React.useRef<IntersectionObserver | null>(null);
  React.useEffect(
    () => () => {
      observer.current?.disconnect();
      observer.current = null;
    },
    []
  );
  return React.useCallback(
    (node, tell) => {
      if (typeof IntersectionObserver === 'undefined') {
        tell(true);
        return () => undefined;
      }
      observer.current ??= new IntersectionObserver(
        entries => entries.forEach(entry => told.current.get(entry.target)?.(entry.isIntersecting)),
        { root: host.current && scrollParent(host.current), rootMargin: `${NEAR}px 0px` }
      );
      told.current.set(node, tell);
      observer.current.observe(node);
      return () => {
        told.current.delete(node);
        observer.current?.unobserve(node);
      };
    },
    [host]
  );
}

/**
 * A list that may have thousands of rows: those far from the view are replaced by empty space. A row is re-rendered
 * only if its item or `stamp` changes.
 */
export function LongList<T>(props: {
  items: readonly T[];
  className: string;
  /** Its ARIA role; `list` by default. */
  role?: string;
  /** Assumed row height until rows have been measured. */
  rowHeight: number;
  stamp?: unknown;
  row: (item: T) => React.ReactElement;
}): React.ReactElement {
  const { items, className, rowHeight, stamp, row, role = 'list' } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const watch = useWatch(host);
  const chunks = [];
  for (let first = 0; first < items.length; first += CHUNK) {
    chunks.push(
      <Chunk
        key={first}
        items={items.slice(first, first + CHUNK)}
        first={first}
        rowHeight={rowHeight}
        stamp={stamp}
        row={row as (item: unknown) => React.ReactElement}
        watch={watch}
      />
    );
  }
  return (
    <div ref={host} role={role} className={className}>
      {chunks}
    </div>
  );
}

interface ChunkProps {
  items: readonly unknown[];
  first: number;
  rowHeight: number;
  stamp: unknown;
  row: (item: unknown) => React.ReactElement;
  watch: Watch;
}

const Chunk = React.memo(function Chunk({ items, first, rowHeight, row, watch }: ChunkProps): React.ReactElement {
  const node = React.useRef<HTMLDivElement>(null);
  const [near, setNear] = React.useState(first === 0);
  const height = React.useRef<number | null>(null);
  React.useLayoutEffect(() => {
    const { current } = node;
    return watch(current!, isNear => {
      // Keep a chunk that contains the focus.
      if (!isNear && current!.contains(document.activeElement)) {
        return;
      }
      if (!isNear && current!.offsetHeight > 0) {
        height.current = current!.offsetHeight / current!.childElementCount;
      }
      setNear(isNear);
    });
  }, [watch]);
  const room = near ? undefined : { height: items.length * (height.current ?? rowHeight) };
  return (
    <div ref={node} role="presentation" style={room}>
      {near && items.map(row)}
    </div>
  );
}, isSame);

function isSame(before: ChunkProps, now: ChunkProps): boolean {
  return (
    before.stamp === now.stamp &&
    before.watch === now.watch &&
    before.items.length === now.items.length &&
    before.items.every((item, index) => item === now.items[index])
  );
}
