import { Signal } from '@lumino/signaling';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { EventSocket } from '../../../src/api/socket';
import { PlotChoices } from '../../../src/model/plotchoices';
import { RunModel } from '../../../src/model/run';
import type { BokehApi } from '../../../src/plots/bokeh';
import { GridOptions, PlotGrid } from '../../../src/plots/grid';
import { RunPlots } from '../../../src/plots/runplots';
import { FakeSocket, fakeSettings, noteEvent, runInfo, taskInfo } from '../fixtures';

/** An observer whose elements the test makes visible or invisible. */
class FakeSight {
  static readonly all: FakeSight[] = [];
  readonly observed = new Set<Element>();

  constructor(private readonly _callback: IntersectionObserverCallback) {
    FakeSight.all.push(this);
  }

  observe(element: Element): void {
    this.observed.add(element);
  }

  unobserve(element: Element): void {
    this.observed.delete(element);
  }

  disconnect(): void {
    this.observed.clear();
  }

  static tell(isIntersecting: boolean, ...elements: Element[]): void {
    for (const observer of FakeSight.all) {
      const entries = elements
        .filter(element => observer.observed.has(element))
        .map(target => ({ target, isIntersecting }) as unknown as IntersectionObserverEntry);
      if (entries.length > 0) {
        observer._callback(entries, observer as unknown as IntersectionObserver);
      }
    }
  }
}

type FakeBokeh = BokehApi & { lines: Record<string, unknown>[] };

/** Returns the part of Bokeh that the plots use. `documents` has the documents it keeps, `lines` the glyphs of lines. */
function fakeBokeh(): FakeBokeh {
  const documents: object[] = [];
  const lines: Record<string, unknown>[] = [];
  class Model {
    start = 0;
    end = 0;
    data = {};
    constructor(properties: object = {}) {
      Object.assign(this, properties);
    }
    setv(properties: object): void {
      Object.assign(this, properties);
    }
    on_event(): void {}
  }
  const part = () => new Model({ glyph: new Model(), ticker: new Model() });
  return {
    documents,
    lines,
    Document: class {
      config = new Model();
      constructor() {
        documents.push(this);
      }
      add_root(): void {}
      clear(): void {}
    },
    Plotting: {
      figure: () =>
        Object.assign(new Model(), {
          toolbar: Object.assign(new Model(), { tools: [new Model(), new Model()] }),
          xaxes: [part()],
          yaxes: [part()],
          xgrids: [part()],
          ygrids: [part()],
          line: (properties: Record<string, unknown>) => {
            const glyph = Object.assign(new Model(), properties);
            lines.push(glyph);
            return new Model({ glyph });
          },
          scatter: part,
          varea: part,
          segment: part,
          add_layout: () => undefined
        })
    },
    Range1d: Model,
    ColumnDataSource: Model,
    Span: Model,
    BoxAnnotation: Model,
    LinearScale: Model,
    AdaptiveTicker: Model,
    BasicTickFormatter: Model,
    set_log_level: () => undefined,
    embed: {
      add_document_standalone: () =>
        Promise.resolve({ get: () => ({ frame: { bbox: { left: 50, top: 0, width: 100, height: 100 } } }) })
    }
  } as unknown as FakeBokeh;
}

const OPTIONS: GridOptions = { tasks: 'auto', smoothing: 0, log: false, filter: '', rate: 1000 };

describe('PlotGrid', () => {
  let host: HTMLElement;
  let model: RunModel;
  let choices: PlotChoices;
  let bokeh: FakeBokeh;
  let grid: PlotGrid;
  let themeChanged: Signal<object, void>;
  let problems: unknown[];

  const cards = () => [...host.querySelectorAll<HTMLElement>('.jp-dtf-plot')];
  const figures = () => cards().filter(card => card.querySelector('[role=slider]'));
  const settled = (check: () => void) => vi.waitFor(check, { interval: 5, timeout: 100_000 });

  beforeEach(() => {
    vi.stubGlobal('IntersectionObserver', FakeSight);
    FakeSight.all.length = 0;
    FakeSocket.all.length = 0;
    host = document.createElement('div');
    Object.defineProperty(host, 'clientWidth', { value: 800 });
    document.body.append(host);
    const socket = new EventSocket(fakeSettings().settings);
    socket.connect();
    FakeSocket.last.open();
    const names = Array.from({ length: 200 }, (_, i) => `a/${i}`);
    model = new RunModel(
      runInfo('r', { latest: Object.fromEntries(['loss', ...names].map(name => [name, 1])) }),
      socket
    );
    socket.message.connect((_, message) => message.type === 'series' && model.applySeries(message));
    model.acquire();
    choices = new PlotChoices();
    bokeh = fakeBokeh();
    const phases = { training: 'training', batch: 'batch', running: '', epoch: 'epoch', validation: 'validation' };
    const words = { phases, mean: '', rest: '', count: (n: number) => `${n} plots` };
    const named = {
      pin: (name: string) => `pin ${name}`,
      unpin: (name: string) => `unpin ${name}`,
      move: (name: string) => `move ${name}`,
      reset: (name: string) => `reset ${name}`,
      save: (name: string) => `save ${name}`,
      saveAs: String,
      hide: '',
      slow: 'slow',
      again: (first: number, last: number) => `${first} to ${last} again`,
      values: String,
      range: 'range',
      rangeOf: String,
      x: String,
      cores: String
    };
    themeChanged = new Signal<object, void>({});
    problems = [];
    const parts = {
      host,
      source: new RunPlots(model, 'model'),
      choices,
      words: { ...words, ...named },
      themeChanged
    };
    const onProblem = (error: unknown) => problems.push(error);
    grid = new PlotGrid({ ...parts, onProblem, load: () => Promise.resolve(bokeh) }, OPTIONS);
    FakeSight.tell(true, host);
  });

  afterEach(() => {
    grid.dispose();
    host.remove();
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
    Signal.clearData(model);
    expect(problems).toEqual([]);
  });

  /** Sends the requested metrics, as the server does. */
  function answer(): void {
    const { metrics = [] } = FakeSocket.last.sent.at(-1) as { metrics?: string[] };
    const frames = metrics.map(metric => ({ metric, task: 'worker:0', start: 0, x: [0, 10], y: [1, 2], replaced: '' }));
    FakeSocket.last.receive({ type: 'series', run: 'r', frames });
  }

  async function show(from: number, to: number): Promise<void> {
    const shown = cards().slice(from, to);
    FakeSight.tell(false, ...cards().filter(card => !shown.includes(card)));
    FakeSight.tell(true, ...shown);
    const names = shown.map(card => card.querySelector('h3')!.title).sort();
    await settled(() => expect(FakeSocket.last.sent.at(-1)).toMatchObject({ metrics: names }));
    answer();
    await settled(() => expect(figures()).toEqual(shown));
  }

  it('draws points that arrived while the page was hidden as soon as it is shown again', async () => {
    await show(0, 1);
    const frames: FrameRequestCallback[] = [];
    vi.stubGlobal('requestAnimationFrame', (callback: FrameRequestCallback) => frames.push(callback));
    const hidden = vi.spyOn(document, 'hidden', 'get').mockReturnValue(true);
    const added = { metric: 'loss', task: 'worker:0', start: 2, x: [20], y: [3], replaced: '' };
    FakeSocket.last.receive({ type: 'series', run: 'r', frames: [added] });
    await settled(() => expect(frames).toHaveLength(1)); // the browser calls it when the page is visible
    hidden.mockReturnValue(false);
    frames[0]!(0);
    const { data } = bokeh.lines[0]!.source as { data: { x: Float64Array } };
    expect([...data.x]).toEqual([0, 10, 20]);
  });

  it('requests and draws plots near the viewport, and removes the others', async () => {
    expect(cards()).toHaveLength(1); // the others are collapsed
    expect(host.querySelector('h3 [aria-expanded]')!.textContent).toBe('a200 plots');
    choices.setOpen(['a'], true);
    expect(cards()).toHaveLength(201);
    expect(bokeh.documents).toHaveLength(0);
    await show(0, 12);
    await show(100, 112);
    expect(bokeh.documents).toHaveLength(12);
    await show(0, 12);
    expect(bokeh.documents).toHaveLength(12);
    grid.dispose();
    await settled(() => expect(bokeh.documents).toHaveLength(0));
    expect(FakeSocket.last.sent.at(-1)).toEqual({ type: 'show', run: 'r', metrics: [] });
    expect(host.childElementCount).toBe(0);
  });

  it('collapses groups, remembers open ones, and shows all plots that a search finds', async () => {
    const heading = host.querySelector<HTMLElement>('h3 [aria-expanded]')!;
    heading.click();
    expect(choices.isOpen('a')).toBe(true);
    expect(heading.getAttribute('aria-expanded')).toBe('true');
    expect(document.getElementById(heading.getAttribute('aria-controls')!)!.hidden).toBe(false);
    await show(1, 9);
    heading.click();
    expect(cards()).toHaveLength(1);
    await settled(() => expect(bokeh.documents).toHaveLength(0));
    grid.setOptions({ ...OPTIONS, filter: '/17[0-4]$' });
    expect(cards().map(card => card.querySelector('h3')!.textContent)).toEqual(['170', '171', '172', '173', '174']);
    grid.setOptions(OPTIONS);
    expect(cards()).toHaveLength(1);
  });

  it('keeps pinned plots on top', () => {
    choices.setOpen(['a'], true);
    const pin = (index: number) => cards()[index]!.querySelector<HTMLElement>('.jp-mod-pin')!;
    expect(pin(7).getAttribute('aria-label')).toBe('pin a/6');
    pin(7).click();
    expect(cards()[0]!.querySelector('h3')!.textContent).toBe('a/6');
    expect(pin(0).getAttribute('aria-pressed')).toBe('true');
    pin(0).click();
    expect(cards()[0]!.querySelector('h3')!.textContent).toBe('loss');
  });

  it('moves pinned plots, with the keyboard and by dragging', () => {
    choices.setOpen(['a'], true);
    const names = () => cards().map(card => card.querySelector('h3')!.title);
    ['a/5', 'a/6', 'a/7'].forEach(metric => choices.setPinned(metric, true));
    const star = cards()[0]!.querySelector<HTMLElement>('.jp-mod-pin')!;
    star.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', altKey: true }));
    expect(names().slice(0, 3)).toEqual(['a/6', 'a/5', 'a/7']);
    star.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
    expect(names()[1]).toBe('a/5');
    const data = new Map<string, string>();
    const dataTransfer = {
      get types() {
        return [...data.keys()];
      },
      setData: (type: string, value: string) => data.set(type, value),
      getData: (type: string) => data.get(type) ?? ''
    };
    const drag = (type: string) =>
      Object.assign(new Event(type, { bubbles: true, cancelable: true }), { dataTransfer });
    expect(cards()[0]!.dispatchEvent(drag('dragover'))).toBe(true); // another kind of drag
    const loss = cards().find(card => card.querySelector('h3')!.title === 'loss')!;
    loss.querySelector('h3')!.dispatchEvent(drag('dragstart'));
    expect(cards()[1]!.dispatchEvent(drag('dragover'))).toBe(false);
    cards()[1]!.dispatchEvent(drag('drop'));
    expect(names().slice(0, 4)).toEqual(['a/6', 'loss', 'a/5', 'a/7']);
  });

  it('has a legend, and buttons only while it has a figure', async () => {
    const button = (name: string) => host.querySelector<HTMLButtonElement>(`[aria-label="${name} loss"]`)!;
    expect(button('save').hidden).toBe(true);
    await show(0, 1);
    expect(host.querySelector('.jp-dtf-plot-legend')!.textContent).toContain('worker:0');
    expect(button('save').hidden).toBe(false);
    expect(button('reset').disabled).toBe(true);
    button('move').click();
    expect(button('move').getAttribute('aria-pressed')).toBe('true');
  });

  it('shows the mean of many tasks with their range, or a plot for each', async () => {
    model.setInfo({ ...model.info, tasks: Array.from({ length: 5 }, (_, i) => taskInfo(`worker:${i}`)) });
    FakeSight.tell(true, ...cards());
    await settled(() => expect(FakeSocket.last.sent.at(-1)).toMatchObject({ metrics: ['loss'] }));
    const tasks = ['', ...model.info.tasks.map(({ task }) => task)];
    const frames = tasks.map((task, i) => ({
      metric: 'loss',
      task,
      start: 0,
      x: [0, 10],
      y: [i, 2 * i],
      replaced: ''
    }));
    FakeSocket.last.receive({ type: 'series', run: 'r', frames });
    const legend = () => host.querySelector('.jp-dtf-plot-legend')!.textContent;
    await settled(() => expect(legend()).toContain('range2 – 10'));
    expect(legend()).not.toContain('worker');
    grid.setOptions({ ...OPTIONS, tasks: 'split' });
    expect(cards().map(card => card.querySelector('h3')!.textContent)).toEqual(
      tasks.slice(1).map(task => `loss · ${task}`)
    );
  });

  it('draws replaced steps behind the line that replaced them', async () => {
    await show(0, 1);
    const { lines } = bokeh;
    const before = lines.length;
    const frame = {
      metric: 'loss',
      task: 'worker:0, attempt 1',
      start: 0,
      x: [5, 10],
      y: [3, 4],
      replaced: 'worker:0'
    };
    FakeSocket.last.receive({ type: 'series', run: 'r', frames: [frame] });
    await settled(() => expect(lines).toHaveLength(before + 1));
    const { line_dash, line_color, level } = lines.at(-1)!;
    expect([line_dash, line_color, level]).toEqual([[2, 3], lines[0]!.line_color, 'underlay']);
    expect(host.querySelector('.jp-dtf-plot-legend')!.textContent).not.toContain('attempt');
  });

  it('draws replaced steps of a plot that is created after they have arrived', async () => {
    choices.setOpen(['a'], true);
    await show(0, 1);
    const frame = { metric: 'loss', task: 'worker:0, attempt 1', start: 0, x: [5], y: [3], replaced: 'worker:0' };
    FakeSocket.last.receive({ type: 'series', run: 'r', frames: [frame] });
    await show(100, 101);
    bokeh.lines.length = 0;
    FakeSight.tell(true, cards()[0]!); // the run has ended: the server sends nothing new
    await settled(() => expect(figures()).toHaveLength(2));
    expect(bokeh.lines.map(line => line.line_dash)).toEqual(['solid', [2, 3]]);
  });

  it('draws lines without a color of their own in that of the current theme', async () => {
    const colours = () => bokeh.lines.map(line => line.line_color);
    await show(0, 1);
    const frames = [
      { metric: 'loss', task: 'unknown', start: 0, x: [0, 10], y: [1, 2], replaced: '' },
      { metric: 'loss', task: 'unknown, attempt 1', start: 0, x: [5], y: [3], replaced: 'unknown' }
    ];
    FakeSocket.last.receive({ type: 'series', run: 'r', frames });
    await settled(() => expect(colours()).toEqual(['#0072b2', '#212121', '#212121']));
    host.style.setProperty('--jp-ui-font-color1', '#eeeeee');
    themeChanged.emit();
    expect(colours()).toEqual(['#0072b2', '#eeeeee', '#eeeeee']);
    grid.setOptions({ ...OPTIONS, smoothing: 0.5 });
    await settled(() => expect(colours().slice(3)).toEqual(['#0072b2', '#eeeeee'])); // the raw values
  });

  it('reports a figure that cannot be drawn, and can still be disposed of', async () => {
    const broken = new Error('broken');
    bokeh.embed.add_document_standalone = () => Promise.reject(broken);
    await show(0, 1);
    await settled(() => expect(problems).toEqual([broken]));
    problems = [];
    grid.dispose();
    await settled(() => expect(bokeh.documents).toEqual([]));
  });

  it('shows the newest value of a long line without drawing it, unless it is outside of the plot', async () => {
    await show(0, 1);
    const { source } = bokeh.lines[0] as { source: { data: { x: Float64Array } } };
    const send = (start: number, x: number, y: number) =>
      FakeSocket.last.receive({
        type: 'series',
        run: 'r',
        frames: [{ metric: 'loss', task: 'worker:0', start, x: [x], y: [y], replaced: '' }]
      });
    send(2, 100_000, 2);
    await settled(() => expect([...source.data.x]).toEqual([0, 10, 100_000]));
    const value = () => host.querySelector('.jp-dtf-plot-value')!.textContent;
    send(3, 100_010, 1.5); // a hundredth of a pixel
    await settled(() => expect(value()).toBe('1.5'));
    expect(source.data.x).toHaveLength(3);
    send(4, 100_020, 50);
    await settled(() => expect(source.data.x).toHaveLength(5));
    expect(value()).toBe('50');
  });

  it('hides a task in all plots, shows only one, and all again', async () => {
    choices.setOpen(['a'], true);
    await show(0, 2);
    const { metrics } = FakeSocket.last.sent.at(-1) as { metrics: string[] };
    const frames = metrics.map(metric => ({ metric, task: 'worker:1', start: 0, x: [0, 10], y: [5, 9], replaced: '' }));
    FakeSocket.last.receive({ type: 'series', run: 'r', frames });
    const names = () => [...host.querySelectorAll<HTMLButtonElement>('button.jp-dtf-plot-name')];
    const shown = () => names().map(name => `${name.textContent} ${name.getAttribute('aria-pressed')}`);
    await settled(() => expect(names()).toHaveLength(4));
    names()[0]!.click();
    expect(shown()).toEqual(['worker:0 false', 'worker:1 true', 'worker:0 false', 'worker:1 true']);
    names()[0]!.click();
    expect(shown()).not.toContain('worker:0 false');
    names()[3]!.dispatchEvent(new MouseEvent('click', { shiftKey: true }));
    expect(shown()).toEqual(['worker:0 false', 'worker:1 true', 'worker:0 false', 'worker:1 true']);
    names()[3]!.dispatchEvent(new MouseEvent('click', { shiftKey: true }));
    expect(shown()).not.toContain('worker:0 false');
  });

  it('shows which task the others wait for, while they do', async () => {
    await show(0, 1);
    const slow = () => [...host.querySelectorAll<HTMLElement>('.jp-dtf-plot-slow')].map(mark => mark.title);
    expect(slow()).toEqual([]);
    model.setInfo({ ...model.info, slow: { 'worker:0': 'worker:0 takes 3.1 times as long' } });
    await settled(() => expect(slow()).toEqual(['worker:0 takes 3.1 times as long']));
    model.setInfo({ ...model.info, slow: {} });
    await settled(() => expect(slow()).toEqual([]));
  });

  it('saves the lines as a table, with a menu that the keyboard can reach', async () => {
    await show(0, 1);
    const saved: Blob[] = [];
    vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(() => undefined); // jsdom cannot download
    vi.stubGlobal('URL', Object.assign(URL, { createObjectURL: (blob: Blob) => `blob:${saved.push(blob)}` }));
    const button = host.querySelector<HTMLButtonElement>('[aria-label="save loss"]')!;
    button.click();
    const items = [...host.querySelectorAll<HTMLElement>('[role=menuitem]')].slice(0, 3);
    expect(items.map(item => item.textContent)).toEqual(['png', 'svg', 'csv']);
    expect(document.activeElement).toBe(items[0]);
    items[0]!.dispatchEvent(new KeyboardEvent('keydown', { key: 'End', bubbles: true }));
    expect(document.activeElement).toBe(items[2]);
    items[2]!.click();
    expect(button.getAttribute('aria-expanded')).toBe('false');
    await settled(() => expect(saved).toHaveLength(1));
    const reader = new FileReader(); // jsdom has no Blob.text()
    reader.readAsText(saved[0]!);
    const rows = ['line,task,step,value', 'loss,worker:0,0,1', 'loss,worker:0,10,2', ''];
    await settled(() => expect(reader.result).toBe(rows.join('\r\n')));
  });

  it('tells of steps that were executed a second time, in the words of the page', async () => {
    await show(0, 1);
    const { progress } = model.info;
    const events = [10, 5].map((done, attempt) => ({
      type: 'progress' as const,
      time: attempt,
      attempt,
      progress: { ...progress, done },
      seq: attempt
    }));
    model.applyEvents({ type: 'events', run: 'r', events: [...events, noteEvent(2)], next_seq: 3 });
    const area = host.querySelector<HTMLElement>('[role=slider]')!;
    await settled(() => {
      area.focus();
      area.dispatchEvent(new KeyboardEvent('keydown', { key: 'End' }));
      expect(area.getAttribute('aria-valuetext')).toBe('10, worker:0 2, 5 to 10 again');
    });
  });

  it('shows values with the keyboard', async () => {
    await show(0, 1);
    const area = host.querySelector<HTMLElement>('[role=slider]')!;
    area.focus();
    area.dispatchEvent(new KeyboardEvent('keydown', { key: 'End' }));
    await settled(() => expect(area.getAttribute('aria-valuetext')).toBe('10, worker:0 2'));
    area.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft' }));
    await settled(() => expect(area.getAttribute('aria-valuetext')).toBe('10, worker:0 1'));
    expect(host.querySelector<HTMLElement>('.jp-dtf-plot-crosshair')!.hidden).toBe(false);
    const nan = noteEvent(0, { title: 'loss became NaN at step 10', metric: 'loss', step: 10 });
    const other = noteEvent(1, { title: 'a/0 became NaN at step 10', metric: 'a/0', step: 10 });
    model.applyEvents({ type: 'events', run: 'r', events: [nan, other], next_seq: 2 });
    await settled(() => {
      area.dispatchEvent(new KeyboardEvent('keydown', { key: 'End' }));
      expect(area.getAttribute('aria-valuetext')).toBe('10, worker:0 2, loss became NaN at step 10');
    });
    area.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
    await settled(() => expect(host.querySelector<HTMLElement>('.jp-dtf-plot-crosshair')!.hidden).toBe(true));
  });
});
