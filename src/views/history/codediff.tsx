import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { changedPart, DiffRow, NumberedLine, sideBySide, withSameLeftOut } from '../../model/linediff';

/** A piece of code in two runs, line by line. Null if a run does not have the piece. */
export function CodeDiff(props: {
  name: string;
  left: string | null;
  right: string | null;
  titles: readonly [string, string];
  trans: TranslationBundle;
}): React.ReactElement {
  const { name, left, right, titles, trans } = props;
  const rows = React.useMemo(() => sideBySide(left ?? '', right ?? ''), [left, right]);
  const parts = React.useMemo(() => withSameLeftOut(rows), [rows]);
  const [open, setOpen] = React.useState<ReadonlySet<number>>(new Set());
  const differing = rows.filter(row => row.differs).length;
  return (
    <section className="jp-dtf-diff-piece" aria-label={name}>
      <h3>
        <code>{name}</code>{' '}
        <span className="jp-dtf-faint">
          {differing === 0 ? trans.__('the same in both') : trans._n('%1 line differs', '%1 lines differ', differing)}
        </span>
      </h3>
      {left === null || right === null ? (
        <p className="jp-dtf-faint">{trans.__('%1 has no corresponding code.', titles[left === null ? 0 : 1])}</p>
      ) : null}
      {(differing > 0 || open.size > 0) && (
        <div className="jp-dtf-diff-scroll" tabIndex={0} role="region" aria-label={trans.__('Lines of %1', name)}>
          <table className="jp-dtf-diff-table">
            <colgroup>
              <col className="jp-dtf-diff-numbers" />
              <col className="jp-dtf-diff-signs" />
              <col />
              <col className="jp-dtf-diff-numbers" />
              <col className="jp-dtf-diff-signs" />
              <col />
            </colgroup>
            <thead>
              <tr>
                <th scope="colgroup" colSpan={3}>
                  {titles[0]}
                </th>
                <th scope="colgroup" colSpan={3}>
                  {titles[1]}
                </th>
              </tr>
            </thead>
            <tbody>
              {parts.flatMap((part, index) => {
                if (!('same' in part)) {
                  return [<Row key={index} row={part} />];
                }
                if (open.has(index)) {
                  return part.same.map((row, at) => <Row key={`${index} ${at}`} row={row} />);
                }
                return [
                  <tr key={index}>
                    <td colSpan={6} className="jp-dtf-diff-same">
                      <button type="button" className="jp-dtf-link" onClick={() => setOpen(new Set([...open, index]))}>
                        {trans.__('%1 unchanged lines', part.same.length)}
                      </button>
                    </td>
                  </tr>
                ];
              })}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Row({ row }: { row: DiffRow }): React.ReactElement {
  const { left, right, differs } = row;
  return (
    <tr data-differs={differs || undefined}>
      <Side line={left} other={right} is={differs ? 'left' : null} />
      <Side line={right} other={left} is={differs ? 'right' : null} />
    </tr>
  );
}

/** The number, the sign and the text of a line; the changed part of the line is highlighted. */
function Side(props: {
  line: NumberedLine | null;
  other: NumberedLine | null;
  is: 'left' | 'right' | null;
}): React.ReactElement {
  const { line, other, is } = props;
  if (!line) {
    return <td colSpan={3} className="jp-dtf-diff-none" />;
  }
  const { number, text } = line;
  let content: React.ReactNode = text;
  if (is && other) {
    const [start, end] = changedPart(text, other.text);
    const Part = is === 'left' ? 'del' : 'ins';
    content = (
      <>
        {text.slice(0, start)}
        {end > start && <Part>{text.slice(start, end)}</Part>}
        {text.slice(end)}
      </>
    );
  }
  return (
    <>
      <td className="jp-dtf-diff-number">{number}</td>
      <td className="jp-dtf-diff-sign" data-side={is ?? undefined}>
        {is === 'left' ? '−' : is === 'right' ? '+' : ''}
      </td>
      <td className="jp-dtf-diff-line" data-side={is ?? undefined}>
        {content}
      </td>
    </>
  );
}
