import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { OutputLine } from '../model/output';
import { taskColours } from '../plots/palette';

const LINE_HEIGHT_PX = 18;
const OVERSCAN = 20;

/** Which of `count` lines of equal height can be seen: from the first to before the second. */
export function visibleRange(scrollTop: number, height: number, count: number): [number, number] {
  const first = Math.max(0, Math.floor(scrollTop / LINE_HEIGHT_PX) - OVERSCAN);
  return [Math.min(first, count), Math.min(count, Math.ceil((scrollTop + height) / LINE_HEIGHT_PX) + OVERSCAN)];
}

/** What the tasks wrote, each line under its task's name. Only the lines in sight are in the page. */
export function Output(props: {
  lines: readonly OutputLine[];
  dropped: number;
  tasks: readonly string[];
  follow: boolean;
  trans: TranslationBundle;
}): React.ReactElement {
  const { lines, tasks, trans } = props;
  const [task, setTask] = React.useState('');
  const [follow, setFollow] = React.useState(props.follow);
  const [view, setView] = React.useState<[number, number]>([0, 600]);
  const box = React.useRef<HTMLDivElement>(null);
  const shown = React.useMemo(() => (task === '' ? lines : lines.filter(line => line.task === task)), [lines, task]);
  const colours = React.useMemo(() => taskColours(tasks), [tasks]);

  const look = React.useCallback(() => {
    const node = box.current;
    if (node) {
      setView(([top, height]) =>
        top === node.scrollTop && height === node.clientHeight ? [top, height] : [node.scrollTop, node.clientHeight]
      );
    }
  }, []);
  React.useLayoutEffect(() => {
    const node = box.current;
    if (node && follow) {
      node.scrollTop = node.scrollHeight;
    }
    look();
  }, [shown, follow, look]);
  React.useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (box.current && follow) {
        box.current.scrollTop = box.current.scrollHeight;
      }
      look();
    });
    observer.observe(box.current!);
    return () => observer.disconnect();
  }, [look, follow]);

  const onScroll = () => {
    const node = box.current!;
    const atEnd = node.scrollHeight - node.scrollTop - node.clientHeight < LINE_HEIGHT_PX;
    if (node.clientHeight > 0 && atEnd !== follow && shown.length > 0) {
      setFollow(atEnd);
    }
    look();
  };
  const [from, to] = visibleRange(view[0], view[1], shown.length);
  return (
    <div className="jp-dtf-output">
      <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Output')}>
        <label>
          {trans.__('task')}
          <select value={task} onChange={event => setTask(event.target.value)}>
            <option value="">{trans.__('all')}</option>
            {tasks.map(name => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" checked={follow} onChange={event => setFollow(event.target.checked)} />
          {trans.__('follow')}
        </label>
        <span className="jp-dtf-spacer" />
        <span className="jp-dtf-faint jp-dtf-number">
          {trans._n('%1 line', '%1 lines', shown.length)}
          {props.dropped > 0 && ` · ${trans.__('the oldest %1 are not shown', props.dropped)}`}
        </span>
      </div>
      <div
        ref={box}
        className="jp-dtf-lines"
        role="log"
        aria-live="off"
        aria-label={trans.__('Output of the tasks')}
        tabIndex={0}
        onScroll={onScroll}
      >
        {shown.length === 0 && <p className="jp-dtf-faint jp-dtf-none">{trans.__('Nothing has been written yet.')}</p>}
        <div style={{ height: shown.length * LINE_HEIGHT_PX }}>
          <div style={{ transform: `translateY(${from * LINE_HEIGHT_PX}px)` }}>
            {shown.slice(from, to).map(line => (
              <div key={line.number} className="jp-dtf-line" data-stream={line.stream}>
                {task === '' && (
                  <span className="jp-dtf-line-task" style={{ borderColor: colours.get(line.task) }}>
                    {line.task}
                  </span>
                )}
                <span className="jp-dtf-line-text">{line.text === '' ? ' ' : line.text}</span>
              </div>
            ))}
          </div>
        </div>
      </div>
    </div>
  );
}
