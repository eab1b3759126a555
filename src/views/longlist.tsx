import React from 'react';

import { scrollParent } from '../plots/domhelpers';

// So many rows come and go together.
const CHUNK = 50;
// Rows are made when they are this near to the view, in pixels.
const NEAR = 600;

/** What a long list asks of the page; the tests' page has no layout, and everything is in sight there. */
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
 * A list that may be thousands long: what is far from the view is in the page as empty room. A row is made again only when its
 * item is another, or `stamp` is.
 */
export function LongList<T>(props: {
  items: readonly T[];
  className: string;
  /** What it is to those who cannot see it: a list, unless it is said. */
  role?: string;
  /** How high a row is, until it has been seen. */
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
      // One that has the keyboard's focus stays.
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
