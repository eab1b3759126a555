import React from 'react';

import { visibleRows } from '../model/visiblerows';

/**
 * A scrollable table with very many rows, of which only the visible ones are rendered. All rows have the height
 * `rowHeight`, so cells are limited to one line.
 */
export function LongTable<T>(props: {
  caption: string;
  /** Its header cells, `th` with `scope="col"`. */
  head: React.ReactNode;
  columns: number;
  items: readonly T[];
  rowHeight?: number;
  /** Renders a `tr` with the given attributes. */
  row: (item: T, place: RowPlace) => React.ReactElement;
}): React.ReactElement {
  const { items, columns, row, rowHeight = 28 } = props;
  const box = React.useRef<HTMLDivElement>(null);
  const [view, setView] = React.useState<readonly [number, number]>([0, 600]);
  const look = React.useCallback(() => {
    const node = box.current;
    if (node && node.clientHeight > 0) {
      setView(([top, height]) =>
        top === node.scrollTop && height === node.clientHeight ? [top, height] : [node.scrollTop, node.clientHeight]
      );
    }
  }, []);
  React.useLayoutEffect(look, [look, items.length]);
  const [from, to] = visibleRows(view[0], view[1], items.length, rowHeight);
  const room = (rows: number) =>
    rows > 0 && (
      <tr aria-hidden="true">
        <td colSpan={columns} style={{ height: rows * rowHeight, padding: 0, border: 0 }} />
      </tr>
    );
  return (
    <div
      ref={box}
      className="jp-dtf-long-table"
      role="region"
      aria-label={props.caption}
      tabIndex={0}
      onScroll={look}
      style={{ '--jp-dtf-row-height': `${rowHeight}px` } as React.CSSProperties}
    >
      <table className="jp-dtf-table" aria-rowcount={items.length + 1}>
        <caption>{props.caption}</caption>
        <thead>
          <tr aria-rowindex={1}>{props.head}</tr>
        </thead>
        <tbody>
          {room(from)}
          {items.slice(from, to).map((item, index) => row(item, { 'aria-rowindex': from + index + 2 }))}
          {room(items.length - to)}
        </tbody>
      </table>
    </div>
  );
}

export interface RowPlace {
  'aria-rowindex'?: number;
}
