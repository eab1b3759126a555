import React from 'react';

export interface Tab {
  id: string;
  title: string;
  content: React.ReactNode;
}

/** Tabs with their panels. A panel is created when it is first shown, and then kept, so that it reappears instantly. */
export function Tabs(props: {
  tabs: Tab[];
  active: string;
  label: string;
  onActive: (id: string) => void;
}): React.ReactElement {
  const base = React.useId();
  const [visited, setVisited] = React.useState<ReadonlySet<string>>(new Set([props.active]));
  if (!visited.has(props.active)) {
    setVisited(new Set([...visited, props.active]));
  }
  const move = (event: React.KeyboardEvent<HTMLDivElement>) => {
    const index = props.tabs.findIndex(tab => tab.id === props.active);
    const count = props.tabs.length;
    const to = { ArrowRight: (index + 1) % count, ArrowLeft: (index + count - 1) % count, Home: 0, End: count - 1 }[
      event.key
    ];
    const tab = to === undefined ? undefined : props.tabs[to];
    if (tab) {
      event.preventDefault();
      props.onActive(tab.id);
      event.currentTarget.querySelector<HTMLElement>(`[data-tab="${tab.id}"]`)?.focus();
    }
  };
  return (
    <>
      <div className="jp-dtf-tabs" role="tablist" aria-label={props.label} onKeyDown={move}>
        {props.tabs.map(tab => (
          <button
            key={tab.id}
            type="button"
            role="tab"
            id={`${base}-${tab.id}-tab`}
            data-tab={tab.id}
            aria-selected={tab.id === props.active}
            aria-controls={`${base}-${tab.id}`}
            tabIndex={tab.id === props.active ? 0 : -1}
            onClick={() => props.onActive(tab.id)}
          >
            {tab.title}
          </button>
        ))}
      </div>
      {props.tabs.map(tab => (
        <div
          key={tab.id}
          className="jp-dtf-tabpanel"
          role="tabpanel"
          id={`${base}-${tab.id}`}
          aria-labelledby={`${base}-${tab.id}-tab`}
          hidden={tab.id !== props.active}
        >
          {visited.has(tab.id) && tab.content}
        </div>
      ))}
    </>
  );
}
