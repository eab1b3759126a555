import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { formatBytes, formatClock, formatNumber, formatValue } from '../model/format';
import type { StoryEvent } from '../model/run';
import { exitText } from '../model/runstate';
import { StateMark } from './controls';
import { LongList } from './longlist';
import { Mark, MarkKind } from './stateicons';
import { stateText } from './localizedtext';

const LEVELS: Record<string, MarkKind> = { info: 'info', warning: 'warning', error: 'error' };

/** The number of events that need attention: warnings, errors and failures. */
export function countTroubles(story: readonly StoryEvent[]): number {
  return story.filter(event => ['warning', 'error', 'failed'].includes(levelOf(event))).length;
}

/** The event log, oldest first: notes, changes of state of the run and its tasks, failures with their tracebacks. */
export function Events(props: {
  story: readonly StoryEvent[];
  trans: TranslationBundle;
  /** The last output of a task, as far as it is available. */
  printed?: (task: string) => string;
}): React.ReactElement {
  const { story, trans, printed = () => '' } = props;
  if (story.length === 0) {
    return <p className="jp-dtf-faint jp-dtf-none">{trans.__('No events yet.')}</p>;
  }
  return (
    <LongList
      className="jp-dtf-events"
      items={story}
      rowHeight={27}
      row={event => (
        <div key={event.seq} role="listitem" className="jp-dtf-event" data-level={levelOf(event)}>
          <time className="jp-dtf-number jp-dtf-faint" dateTime={new Date(1000 * event.time).toISOString()}>
            {formatClock(event.time)}
          </time>
          <EventMark event={event} trans={trans} />
          <span className="jp-dtf-event-who">{event.type === 'run' ? trans.__('run') : event.task}</span>
          <Text event={event} trans={trans} printed={printed} />
        </div>
      )}
    />
  );
}

/** A note's level, or the new state of a run or task; a checkpoint has neither. */
function levelOf(event: StoryEvent): string {
  return event.type === 'note' ? event.level : event.type === 'checkpoint' ? 'checkpoint' : event.state;
}

function EventMark({ event, trans }: { event: StoryEvent; trans: TranslationBundle }): React.ReactElement {
  if (event.type === 'checkpoint') {
    return <Mark kind="info" name={trans.__('checkpoint')} />;
  }
  if (event.type !== 'note') {
    return <StateMark state={event.state} trans={trans} />;
  }
  return <Mark kind={LEVELS[event.level] ?? 'info'} name={event.level} />;
}

function Text(props: {
  event: StoryEvent;
  trans: TranslationBundle;
  printed: (task: string) => string;
}): React.ReactElement {
  const { event, trans } = props;
  if (event.type === 'note') {
    return (
      <div>
        {event.title}
        {event.text !== '' && <Long title={trans.__('Details')} text={event.text} />}
      </div>
    );
  }
  if (event.type === 'checkpoint') {
    const { step, bytes, metric, seconds, path } = event.checkpoint;
    const facts = [
      trans.__('checkpoint of step %1', step),
      formatBytes(bytes),
      metric === null ? '' : trans.__('metric %1', formatNumber(metric)),
      seconds > 0 ? trans.__('written in %1', formatValue(seconds, 'seconds')) : ''
    ];
    return (
      <div>
        {facts.filter(part => part !== '').join(', ')}
        <Long title={trans.__('Details')} text={path} />
      </div>
    );
  }
  const parts = [stateText(event.state, trans)];
  if (event.type === 'task') {
    if (event.host !== '' && (event.state === 'starting' || event.state === 'failed')) {
      parts.push(trans.__('on %1', event.host));
    }
    if (event.attempt > 0) {
      parts.push(trans.__('attempt %1', event.attempt + 1));
    }
    parts.push(exitText(event));
  }
  parts.push(event.message);
  const words = event.type === 'task' && event.state === 'failed' ? props.printed(event.task) : '';
  return (
    <div>
      {parts.filter(part => part !== '').join(' · ')}
      {event.type === 'task' && event.traceback !== '' && (
        <Long title={trans.__('Traceback')} text={event.traceback} open={event.state === 'failed'} />
      )}
      {words !== '' && <Long title={trans.__('Its last output')} text={words} />}
    </div>
  );
}

function Long(props: { title: string; text: string; open?: boolean }): React.ReactElement {
  return (
    <details open={props.open}>
      <summary>{props.title}</summary>
      <pre tabIndex={0}>{props.text}</pre>
    </details>
  );
}
