import React from 'react';

import type { Histogram, MediaSeries, Picture, ReportedTable, ReportedText } from '../../api/schema';
import { messageOf } from '../../model/errormessage';
import { isFinal } from '../../model/runstate';
import { HistogramPlot } from '../../views/histogram';
import { useSeen, useSignals } from '../../views/hooks';
import { Pictures } from '../../views/reportedpictures';
import { ReportedTexts } from '../../views/reportedtexts';
import { TaskPicker } from '../../views/taskpicker';
import type { DashboardTab, TabProps } from './dashboardtab';

// Interval at which the list is fetched while the run is active and this is visible.
const AGAIN_MS = 2000;
// Maximum number of cached items per name; an image takes up to a third of a megabyte as text.
const MOST_KNOWN = 60;

export const mediaTab: DashboardTab = {
  id: 'media',
  title: (_, trans) => trans.__('Histograms, images, text'),
  View: RunMedia
};

function RunMedia({ model, options }: TabProps): React.ReactElement {
  const { dtf, trans, themeChanged } = options;
  useSignals(model.infoChanged);
  const ended = isFinal(model.info.state);
  const host = React.useRef<HTMLDivElement>(null);
  const seen = useSeen(host);
  const [all, setAll] = React.useState<readonly MediaSeries[] | null>(null);
  const [problem, setProblem] = React.useState('');
  const [chosen, setTask] = React.useState('');
  React.useEffect(() => {
    if (!seen) {
      return;
    }
    let timer: ReturnType<typeof setTimeout> | undefined;
    let gone = false;
    const look = () => {
      dtf.api
        .media(model.id)
        .then(
          found => {
            if (!gone) {
              setAll(before => (JSON.stringify(before) === JSON.stringify(found) ? before : found));
              setProblem('');
            }
          },
          (error: unknown) => !gone && setProblem(messageOf(error))
        )
        .finally(() => {
          if (!gone && !ended) {
            timer = setTimeout(look, AGAIN_MS);
          }
        });
    };
    look();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [dtf, model, seen, ended]);
  const tasks = [...new Set((all ?? []).map(({ task }) => task))];
  const task = tasks.includes(chosen) ? chosen : (tasks[0] ?? '');
  const shown = (all ?? []).filter(one => one.task === task);
  return (
    <div ref={host} className="jp-dtf-media">
      {problem !== '' && <p role="alert">{problem}</p>}
      {all !== null && all.length === 0 && (
        <p className="jp-dtf-faint jp-dtf-none">
          {ended
            ? trans.__('This run reported no histogram, image, text or table.')
            : trans.__(
                'Nothing has been reported yet with ctx.report_histogram, ctx.report_image, ctx.report_text or ctx.report_table.'
              )}
        </p>
      )}
      {tasks.length > 1 && (
        <div className="jp-dtf-toolbar" role="toolbar" aria-label={trans.__('Histograms, images, text')}>
          <TaskPicker tasks={tasks} task={task} onTask={setTask} trans={trans} />
        </div>
      )}
      <div className="jp-dtf-plot-grid">
        {shown
          .filter(({ kind }) => kind === 'histogram')
          .map(series => (
            <RunHistogram
              key={`${series.task}\n${series.name}`}
              series={series}
              read={() => dtf.api.histograms(model.id, series.name, series.task)}
              themeChanged={themeChanged}
              trans={trans}
            />
          ))}
      </div>
      {shown
        .filter(({ kind }) => kind === 'image')
        .map(series => (
          <RunPictures key={`${series.task}\n${series.name}`} series={series} model={model} options={options} />
        ))}
      {shown
        .filter(({ kind }) => kind === 'text' || kind === 'table')
        .map(series => (
          <RunTexts
            key={`${series.kind}\n${series.task}\n${series.name}`}
            series={series}
            model={model}
            options={options}
          />
        ))}
    </div>
  );
}

function RunHistogram(props: {
  series: MediaSeries;
  read: () => Promise<Histogram[]>;
  themeChanged: TabProps['options']['themeChanged'];
  trans: TabProps['options']['trans'];
}): React.ReactElement {
  const { series, themeChanged, trans } = props;
  const [histograms, setHistograms] = React.useState<readonly Histogram[]>([]);
  const read = React.useRef(props.read);
  read.current = props.read;
  // The list also changes when a later attempt repeats steps.
  const stamp = series.steps.join();
  React.useEffect(() => {
    let gone = false;
    read.current().then(
      found => !gone && setHistograms(found),
      () => undefined // the next fetch of the list reports the problem
    );
    return () => {
      gone = true;
    };
  }, [stamp]);
  return <HistogramPlot name={series.name} histograms={histograms} themeChanged={themeChanged} trans={trans} />;
}

function RunPictures({ series, model, options }: TabProps & { series: MediaSeries }): React.ReactElement {
  const { dtf, trans } = options;
  const { name, task } = series;
  const read = React.useMemo(
    () => keeping<Picture>(step => dtf.api.image(model.id, name, task, step)),
    [dtf, model, name, task]
  );
  return <Pictures series={series} read={read} trans={trans} />;
}

function RunTexts({ series, model, options }: TabProps & { series: MediaSeries }): React.ReactElement {
  const { dtf, trans } = options;
  const { kind, name, task } = series;
  const read = React.useMemo(
    () =>
      keeping<ReportedText | ReportedTable>(step =>
        kind === 'text' ? dtf.api.text(model.id, name, task, step) : dtf.api.table(model.id, name, task, step)
      ),
    [dtf, model, kind, name, task]
  );
  return <ReportedTexts series={series} read={read} trans={trans} />;
}

/** Cache the items that have been read, so that they are available when the slider returns to them. */
function keeping<T>(read: (step: number) => Promise<T>): (step: number) => Promise<T> {
  const known = new Map<number, Promise<T>>();
  return step => {
    let found = known.get(step);
    if (!found) {
      found = read(step);
      found.catch(() => known.delete(step));
      known.set(step, found);
      if (known.size > MOST_KNOWN) {
        known.delete(known.keys().next().value!);
      }
    }
    return found;
  };
}
