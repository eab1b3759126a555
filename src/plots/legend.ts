import type { ShownAxis } from '../model/shownaxis';
import { element } from './domhelpers';
import { compareTasks, Phase, PlotLine } from './metricplots';
import type { ToolWords } from './plottools';

/** A plot's texts, translated by its creator. */
export interface PlotWords extends ToolWords {
  /** The names of the phases of a line's values. */
  phases: Record<Phase, string>;
  mean: string;
  /** The label of the band from the lowest to the highest task, and its description. */
  range: string;
  rangeOf: (tasks: number) => string;
  /** The labels of the x axes. */
  x: (axis: ShownAxis) => string;
  cores: (metric: string) => string;
  /** The crosshair's label for screen readers. */
  values: (metric: string) => string;
  /** The text for the number of plots under a heading. */
  count: (plots: number) => string;
  rest: string;
  /** The label of an interval in which steps were executed a second time. */
  again: (first: number, last: number) => string;
  /** The label of a task for which the others wait. */
  slow: string;
  /** The description of what a click on the name of a line does. */
  hide: string;
}

const SWATCHES: Partial<Record<Phase, string>> = { validation: ' jp-mod-dashed', epoch: ' jp-mod-dots' };

/** The names of a plot's lines, each with a value. A task has one entry for both of its lines. */
export class Legend {
  readonly node = element('div', 'jp-dtf-plot-legend');
  /** Called when the pointer enters or leaves the entry of a task. */
  onPoint: ((task: string | null) => void) | null = null;
  /** Called when the user hides a task, shows it again, or shows it alone. */
  onHide: ((task: string, alone: boolean) => void) | null = null;

  constructor(private readonly _words: PlotWords) {}

  /** Add a line, with the color of its task or null for that of the text; returns the element for its value. */
  add(line: PlotLine, colour: string | null): HTMLElement {
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

  /** The name of a line's phase; empty for training, the default. */
  phaseName(line: PlotLine): string {
    return line.phase === 'training' ? '' : this._words.phases[line.phase];
  }

  /** Add the band behind a mean; returns the element for its limits. */
  addBand(line: PlotLine): HTMLElement {
    const entry = this._entry(line.task, null);
    const value = element('span', 'jp-dtf-plot-value jp-mod-range');
    value.title = this._words.rangeOf(line.parts?.length ?? 0);
    const swatch = element('span', 'jp-dtf-plot-swatch jp-mod-band');
    swatch.title = value.title;
    entry.append(swatch, element('span', 'jp-dtf-plot-name', this._words.range), value);
    keepTogether(entry);
    return value;
  }

  /** Mark the hidden tasks. */
  setHidden(hidden: ReadonlySet<string>): void {
    for (const [task, entry] of this._entries) {
      entry.classList.toggle('jp-mod-hidden', hidden.has(task));
      entry.firstElementChild!.setAttribute('aria-pressed', String(!hidden.has(task)));
    }
  }

  /** Mark the tasks for which the others wait, each with a sentence about it. */
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

  private _entry(task: string, colour: string | null): HTMLElement {
    let entry = this._entries.get(task);
    if (!entry) {
      entry = element('span', 'jp-dtf-plot-key');
      const name = element('button', 'jp-dtf-plot-name', task === '' ? this._words.mean : task);
      name.type = 'button';
      name.title = this._words.hide;
      name.setAttribute('aria-pressed', 'true');
      name.onclick = event => this.onHide?.(task, event.shiftKey || event.altKey);
      entry.append(name);
      entry.style.color = colour ?? 'var(--jp-ui-font-color1)';
      entry.onpointerenter = () => this.onPoint?.(task);
      entry.onpointerleave = () => this.onPoint?.(null);
      // In task order, regardless of which task reported first.
      const following = [...this._entries].filter(([other]) => compareTasks(other, task) > 0);
      following.sort(([a], [b]) => compareTasks(a, b));
      this.node.insertBefore(entry, following[0]?.[1] ?? null);
      this._entries.set(task, entry);
    }
    return entry;
  }

  private readonly _entries = new Map<string, HTMLElement>();
}

/** Keep the swatch, the name and the value of a line on one line of the legend. */
function keepTogether(entry: HTMLElement): void {
  const part = element('span', 'jp-dtf-plot-part');
  part.append(...[...entry.children].slice(-3));
  entry.append(part);
}
