import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { searchesOf } from '../model/search';
import type { IDtf } from '../tokens';
import { useSignals } from '../views/hooks';
import { SearchActions, SearchView } from '../views/search/searchview';

/** The parts of the application that the view of a search uses. */
export interface SearchOptions extends SearchActions {
  search: string;
  dtf: IDtf;
  trans: TranslationBundle;
}

/** A search, in the main area or in a notebook's output. */
export class SearchPane extends ReactWidget {
  constructor(private readonly _options: SearchOptions) {
    super();
    this.addClass('jp-dtf-dashboard');
    this.addClass('jp-dtf-search-view');
  }

  get search(): string {
    return this._options.search;
  }

  protected override render(): React.ReactElement {
    return <Finder {...this._options} />;
  }
}

/** Wait until the search is known, which takes a moment after the page is reloaded. */
function Finder(props: SearchOptions): React.ReactElement {
  const { dtf, search, trans } = props;
  useSignals(dtf.runs.changed);
  const { runs } = dtf.runs;
  const found = React.useMemo(() => searchesOf(runs.filter(run => run.trial?.search === search))[0], [runs, search]);
  if (!found) {
    return (
      <p className="jp-dtf-faint jp-dtf-none" role="status">
        {dtf.runs.isReady
          ? trans.__('There is no trial of the search %1.', search)
          : trans.__('Looking for the search…')}
      </p>
    );
  }
  return <SearchView {...props} search={found} />;
}
