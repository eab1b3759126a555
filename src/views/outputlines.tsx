import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { OutputLine } from '../model/output';
import { cutAt, filtered, Level } from '../model/outputfilter';
import { OVERSCAN, visibleRows } from '../model/visiblerows';
import { taskColours } from '../plots/palette';
import { TaskPicker } from './taskpicker';

const LINE_HEIGHT_PX = 18;

/** The number of lines that now precede the previous first line; negative if lines were removed. */
function shift(before: OutputLine, shown: readonly OutputLine[]): number {
  const [now] = shown;
  if (now === undefined || now.number === before.number) {
    return 0;
  }
  const place = shown.findIndex(line => line.number >= before.number);
  return now.number < before.number ? Math.max(place, 0) : before.number - now.number;
}

/** Access to lines that are not currently shown. */
export interface OutputPages {
  /** Whether there is more output before the first line. */
  hasEarlier: boolean;
  /** Why a page could not be loaded. */
  problem: string;
  earlier(): void;
  later(): void;
  /** Return to the newest lines, of one task or of all. */
  follow(task: string): void;
}

/** The output of the tasks, with the task's name at each line. Only visible lines are rendered. */
export function Output(props: {
  lines: readonly OutputLine[];
  dropped: number;
  pages?: OutputPages;
  /** The download URL of the output of one task, or of all; with a search string, only of the lines that contain it. */
  downloadUrl?: (task: string, find: string) => string;
  tasks: readonly string[];
  follow: boolean;
  /** Whether there will be no more output. */
  ended: boolean;
  trans: TranslationBundle;
}): React.ReactElement {
  const { lines, tasks, trans, pages } = props;
  const [task, setTask] = React.useState('');
  const [level, setLevel] = React.useState<Level>('info');
  const [find, setFind] = React.useState('');
  const [follow, setFollow] = React.useState(props.follow);
  React.useEffect(() => setFollow(props.follow), [props.follow]); // the preferences may be loaded after this is shown
  const [view, setView] = React.useState<[number, number]>([0, 600]);
  const box = React.useRef<HTMLDivElement>(null);
  const shown = React.useMemo(
    () => filtered(task === '' ? lines : lines.filter(line => line.task === task), { level, find }),
    [lines, task, level, find]
  );
  const colours = React.useMemo(() => taskColours(tasks), [tasks]);

  const look = React.useCallback(() => {
    const node = box.current;
    if (node) {
      setView(([top, height]) =>
        top === node.scrollTop && height === node.clientHeight ? [top, height] : [node.scrollTop, node.clientHeight]
      );
    }
  }, []);
  const first = React.useRef<OutputLine | undefined>(undefined);
  React.useLayoutEffect(() => {
    const node = box.current;
    if (node && follow) {
      node.scrollTop = node.scrollHeight;
    } else if (node && first.current) {
      // Keep the visible lines in place when lines before them are added or removed.
      node.scrollTop += LINE_HEIGHT_PX * shift(first.current, shown);
    }
    first.current = shown[0];
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
    if (node.clientHeight > 0 && shown.length > 0) {
      if (atEnd !== follow) {
        setFollow(atEnd);
      }
      if (atEnd) {
        pages?.later();
      } else if (node.scrollTop < OVERSCAN * LINE_HEIGHT_PX && pages?.hasEarlier) {
        pages.earlier();
      }
    }
    look();
  };
  const [from, to] = visibleRows(view[0], view[1], shown.length, LINE_HEIGHT_PX);
  return (
    <div className="jp-dtf-output">
      <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Output')}>
        <TaskPicker
          tasks={tasks}
          task={task}
          all={trans.__('all')}
          onTask={name => {
            setTask(name);
            first.current = undefined;
            pages?.follow(name);
          }}
          trans={trans}
        />
        <label>
          <input
            type="checkbox"
            checked={follow}
            onChange={event => {
              setFollow(event.target.checked);
              if (event.target.checked) {
                pages?.follow(task);
              }
            }}
          />
          {trans.__('follow')}
        </label>
        <label>
          {trans.__('level')}
          <select
            value={level}
            onChange={event => {
              setLevel(event.target.value as Level);
              first.current = undefined;
            }}
          >
            <option value="info">{trans.__('all')}</option>
            <option value="warning">{trans.__('warnings and errors')}</option>
            <option value="error">{trans.__('errors')}</option>
          </select>
        </label>
        <input
          type="search"
          className="jp-dtf-search"
          aria-label={trans.__('Find in these lines')}
          placeholder={trans.__('Find')}
          value={find}
          onChange={event => {
            setFind(event.target.value);
            first.current = undefined;
          }}
          onKeyDown={event => event.key === 'Escape' && setFind('')}
        />
        {pages?.hasEarlier && (
          <button
            type="button"
            className="jp-dtf-link"
            onClick={() => {
              setFollow(false);
              pages.earlier();
            }}
          >
            {trans.__('Earlier lines')}
          </button>
        )}
        {pages && pages.problem !== '' && <span role="alert">{pages.problem}</span>}
        <span className="jp-dtf-spacer" />
        {props.downloadUrl && (
          <a
            className="jp-dtf-link"
            href={props.downloadUrl(task, find)}
            download
            title={
              find === ''
                ? trans.__('The whole output, including what is not shown here')
                : trans.__('All matching lines, including those not shown here')
            }
          >
            {trans.__('Download')}
          </a>
        )}
        <span className="jp-dtf-faint jp-dtf-number">
          {trans._n('%1 line', '%1 lines', shown.length)}
          {props.dropped > 0 && ` · ${trans.__('%1 more are not shown', props.dropped)}`}
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
        {shown.length === 0 && (
          <p className="jp-dtf-faint jp-dtf-none">
            {lines.length > 0
              ? trans.__('No lines match.')
              : props.ended
                ? trans.__('No output.')
                : trans.__('No output yet.')}
          </p>
        )}
        <div style={{ height: shown.length * LINE_HEIGHT_PX }}>
          <div style={{ transform: `translateY(${from * LINE_HEIGHT_PX}px)` }}>
            {shown.slice(from, to).map(line => (
              <div key={line.number} className="jp-dtf-line" data-stream={line.stream}>
                {task === '' && (
                  <span className="jp-dtf-line-task" style={{ borderColor: colours.get(line.task) }}>
                    {line.task}
                  </span>
                )}
                <span className="jp-dtf-line-text">
                  {line.missing === undefined
                    ? content(line, find)
                    : trans._n(
                        '… %1 line is not shown: scroll up',
                        '… %1 lines are not shown: scroll up',
                        line.missing
                      )}
                </span>
              </div>
            ))}
          </div>
        </div>
      </div>
    </div>
  );
}

/** A line with its colors, and with search matches highlighted. */
function content(line: OutputLine, find: string): React.ReactNode {
  if (!line.parts) {
    return marked(line.text, find) || ' ';
  }
  return line.parts.map(({ text, className, colour, ground }, index) => (
    <span key={index} className={className} style={{ color: colour, background: ground }}>
      {marked(text, find)}
    </span>
  ));
}

function marked(text: string, find: string): React.ReactNode {
  const parts = cutAt(text, find);
  return parts.length === 1 ? text : parts.map((part, index) => (index % 2 ? <mark key={index}>{part}</mark> : part));
}
