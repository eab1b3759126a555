import type { ShownAxis } from '../model/shownaxis';
import { element } from './domhelpers';
import { compareTasks, Phase, PlotLine } from './metricplots';
import type { ToolWords } from './plottools';

/** Words on a plot, translated by who makes it. */
export interface PlotWords extends ToolWords {
  /** What the values of a line are of. */
  phases: Record<Phase, string>;
  mean: string;
  /** The area from the lowest to the highest of so many tasks, and what it is in a sentence. */
  range: string;
  rangeOf: (tasks: number) => string;
  /** The names of the axes. */
  x: (axis: ShownAxis) => string;
  cores: (metric: string) => string;
  /** What the crosshair is, to who hears it. */
  values: (metric: string) => string;
  /** How many plots are under a heading. */
  count: (plots: number) => string;
  rest: string;
  /** A task for which the others wait. */
  slow: string;
  /** What a click on the name of a line does. */
  hide: string;
}

const SWATCHES: Partial<Record<Phase, string>> = { validation: ' jp-mod-dashed', epoch: ' jp-mod-dots' };

/** What the lines of a plot are, and a value of each. A task has one entry for both its lines. */
export class Legend {
  readonly node = element('div', 'jp-dtf-plot-legend');
  /** The pointer is on the entry of a task, or has left it. */
  onPoint: ((task: string | null) => void) | null = null;
  /** The person hides a task, or shows it again; or wants to see it alone. */
  onHide: ((task: string, alone: boolean) => void) | null = null;

  constructor(private readonly _words: PlotWords) {}

  /** Say what a line is; returns where its value goes. */
  add(line: PlotLine, colour: string): HTMLElement {
    const entry = this._entry(line.task, colour);
    const value = element('span', 'jp-dtf-plot-value');
    entry.append(
      element('span', `jp-dtf-plot-swatch${SWATCHES[line.phase] ?? ''}`),
      element('span', 'jp-dtf-plot-phase', this._words.phases[line.phase]),
      value
    );
    if (line.phase !== 'training') {
      this.node.classList.add('jp-mod-phases');
    }
    keepTogether(entry);
    return value;
  }

  /** What the values of a line are of, where that has to be said. */
  phaseName(line: PlotLine): string {
    return line.phase === 'training' ? '' : this._words.phases[line.phase];
  }

  /** Say what the area behind a mean is; returns where its limits go. */
  addBand(line: PlotLine): HTMLElement {
    const entry = this._entry(line.task, '');
    const value = element('span', 'jp-dtf-plot-value jp-mod-range');
    value.title = this._words.rangeOf(line.parts?.length ?? 0);
    const swatch = element('span', 'jp-dtf-plot-swatch jp-mod-band');
    swatch.title = value.title;
    entry.append(swatch, element('span', 'jp-dtf-plot-name', this._words.range), value);
    keepTogether(entry);
    return value;
  }

  /** Say which tasks are not drawn. */
  setHidden(hidden: ReadonlySet<string>): void {
    for (const [task, entry] of this._entries) {
      entry.classList.toggle('jp-mod-hidden', hidden.has(task));
      entry.firstElementChild!.setAttribute('aria-pressed', String(!hidden.has(task)));
    }
  }

  /** Say for which tasks the others wait, in a sentence each. */
  setSlow(slow: Readonly<Record<string, string>>): void {
    for (const [task, entry] of this._entries) {
      const words = slow[task];
      const known = entry.querySelector<HTMLElement>('.jp-dtf-plot-slow');
      if (words === undefined) {
        known?.remove();
      } else if (!known) {
        const mark = element('span', 'jp-dtf-plot-slow', this._words.slow);
        mark.title = words;
        entry.firstElementChild!.after(mark);
      }
    }
  }

  clear(): void {
    this.node.replaceChildren();
    this.node.classList.remove('jp-mod-phases');
    this._entries.clear();
  }

  private _entry(task: string, colour: string): HTMLElement {
    let entry = this._entries.get(task);
    if (!entry) {
      entry = element('span', 'jp-dtf-plot-key');
      const name = element('button', 'jp-dtf-plot-name', task === '' ? this._words.mean : task);
      name.type = 'button';
      name.title = this._words.hide;
      name.setAttribute('aria-pressed', 'true');
      name.onclick = event => this.onHide?.(task, event.shiftKey || event.altKey);
      entry.append(name);
      entry.style.color = task === '' ? 'var(--jp-ui-font-color1)' : colour;
      entry.onpointerenter = () => this.onPoint?.(task);
      entry.onpointerleave = () => this.onPoint?.(null);
      // In the order of the tasks, whichever spoke first.
      const following = [...this._entries].filter(([other]) => compareTasks(other, task) > 0);
      following.sort(([a], [b]) => compareTasks(a, b));
      this.node.insertBefore(entry, following[0]?.[1] ?? null);
      this._entries.set(task, entry);
    }
    return entry;
  }

  private readonly _entries = new Map<string, HTMLElement>();
}

/** The swatch, the word and the value of a line are on one line of the legend, wherever it breaks. */
function keepTogether(entry: HTMLElement): void {
  const part = element('span', 'jp-dtf-plot-part');
  part.append(...[...entry.children].slice(-3));
  entry.append(part);
}
