import type { PlotCard } from './plotcard';
import { element, setChildren } from './domhelpers';
import type { Arrangement, Family } from './plotarrangement';
import type { Plot } from './metricplots';
import type { PlotWords } from './legend';

/** The callbacks that showing a heading with its plots requires. */
export interface SectionActions {
  isOpen(key: string): boolean;
  setOpen(key: string, open: boolean): void;
  /** The card of a visible plot. */
  card(plot: Plot): PlotCard;
}

/** The headings on a page of plots, and the grids below them. */
export class Sections {
  private readonly _top = element('div', 'jp-dtf-plot-grid');

  constructor(
    private readonly _host: HTMLElement,
    private readonly _words: PlotWords,
    private readonly _actions: SectionActions
  ) {}

  /** Show an arrangement; cards are requested in page order, and only for plots under open headings. */
  update({ top, families }: Arrangement): void {
    setChildren(
      this._top,
      top.map(plot => this._actions.card(plot).node)
    );
    const seen = new Set<string>();
    const nodes = families.map(family => this._section(family, seen));
    setChildren(this._host, top.length > 0 ? [this._top, ...nodes] : nodes);
    for (const key of this._sections.keys()) {
      if (!seen.has(key)) {
        this._sections.delete(key);
      }
    }
  }

  private _section(family: Family, seen: Set<string>): HTMLElement {
    seen.add(family.key);
    let section = this._sections.get(family.key);
    if (!section) {
      section = new Section(() => this._actions.setOpen(family.key, !this._actions.isOpen(family.key)));
      this._sections.set(family.key, section);
    }
    const open = this._actions.isOpen(family.key);
    section.describe(family.title || this._words.rest, this._words.count(family.count), open);
    setChildren(section.grid, open ? family.plots.map(plot => this._actions.card(plot).node) : []);
    const below = open ? family.families.map(one => this._section(one, seen)) : [];
    setChildren(section.body, family.plots.length > 0 ? [section.grid] : below);
    return section.node;
  }

  private readonly _sections = new Map<string, Section>();
}

let count = 0;

class Section {
  readonly node = element('div', 'jp-dtf-family');
  readonly body = element('div', 'jp-dtf-family-body');
  readonly grid = element('div', 'jp-dtf-plot-grid');

  constructor(toggle: () => void) {
    const heading = element('h3', 'jp-dtf-family-title');
    this._button.type = 'button';
    this._button.onclick = toggle;
    this._button.append(this._name, this._count);
    heading.append(this._button);
    this.body.id = `jp-dtf-family-${(count += 1)}`;
    this._button.setAttribute('aria-controls', this.body.id);
    this.node.append(heading, this.body);
  }

  describe(name: string, plots: string, open: boolean): void {
    this._name.textContent = name;
    this._count.textContent = plots;
    this._button.setAttribute('aria-expanded', String(open));
    this.body.hidden = !open;
  }

  private readonly _button = element('button');
  private readonly _name = element('span', 'jp-dtf-family-name');
  private readonly _count = element('span', 'jp-dtf-faint');
}
