import type { TranslationBundle } from '@jupyterlab/translation';
import { ellipsesIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { useWidth } from '../hooks';
import { Fitted, fitting } from './overflowlayout';
import { useFollowingFocus } from './focusrestoration';

/** Gap between two controls, px; the same as in the style sheet. */
const GAP = 8;
const MORE = 'more';

export interface BarControl extends Omit<Fitted, 'px'> {
  /** Whether it and all controls after it are aligned to the right. */
  readonly atEnd?: boolean;
  readonly element: React.ReactNode;
}

/**
 * A toolbar of a single line, however narrow: controls that do not fit move into a list that opens from its last
 * button.
 */
export function OverflowBar(props: {
  label: string;
  controls: readonly BarControl[];
  trans: TranslationBundle;
}): React.ReactElement {
  const { label, controls, trans } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const sizes = useSizes(host);
  const focus = useFollowingFocus(); // for a control that has just moved into or out of the list

  // Controls not yet measured are put into the bar once; that happens before anything is painted.
  const fitted = controls.map(({ id, stays }) => ({ id, stays, px: sizes.get(id) ?? 0 }));
  const out = fitting(fitted, width, { gap: GAP, more: sizes.get(MORE) ?? 0 });
  const rest = controls.filter(({ id }) => !out.has(id));
  return (
    <div className="jp-dtf-toolbar" role="toolbar" aria-label={label} tabIndex={-1} {...focus}>
      <div className="jp-dtf-overflow-bar" ref={host}>
        {controls
          .filter(({ id }) => out.has(id))
          .map(control => (
            <Control key={control.id} control={control} />
          ))}
        {rest.length > 0 && (
          <div className="jp-dtf-bar-control jp-mod-end" data-control={MORE}>
            <More trans={trans}>
              {rest.map(control => (
                <Control key={control.id} control={control} />
              ))}
            </More>
          </div>
        )}
      </div>
    </div>
  );
}

function Control({ control }: { control: BarControl }): React.ReactElement {
  return (
    <div className={`jp-dtf-bar-control${control.atEnd ? ' jp-mod-end' : ''}`} data-control={control.id}>
      {control.element}
    </div>
  );
}

/** The widths of the controls by id: current for those in the bar, and as last measured there for the others. */
function useSizes(host: React.RefObject<HTMLElement>): ReadonlyMap<string, number> {
  const sizes = React.useRef(new Map<string, number>()).current;
  const [, again] = React.useReducer((count: number) => count + 1, 0);
  // After each render: the bar may have other controls now, and their contents may have changed.
  React.useLayoutEffect(() => {
    const shown = [...(host.current?.children ?? [])] as HTMLElement[];
    const measure = () => {
      let changed = false;
      for (const element of shown) {
        const id = element.dataset['control']!;
        const px = Math.ceil(element.getBoundingClientRect().width);
        changed ||= sizes.get(id) !== px;
        sizes.set(id, px);
      }
      if (changed) {
        again();
      }
    };
    measure();
    const observer = new ResizeObserver(measure);
    shown.forEach(element => observer.observe(element));
    return () => observer.disconnect();
  });
  return sizes;
}

/** The button at the end, and the list that it opens. */
function More(props: { children: React.ReactNode; trans: TranslationBundle }): React.ReactElement {
  const { children, trans } = props;
  const [open, setOpen] = React.useState(false);
  const host = React.useRef<HTMLDivElement>(null);
  const button = React.useRef<HTMLButtonElement>(null);
  const list = React.useRef<HTMLDivElement>(null);
  const id = React.useId();
  React.useEffect(() => {
    if (!open) {
      return;
    }
    list.current?.querySelector<HTMLElement>('button:enabled, select, input')?.focus({ preventScroll: true });
    // Pressing anywhere else closes the list, even on something that cannot be focused.
    const onPress = ({ target }: PointerEvent) => !host.current?.contains(target as Node) && setOpen(false);
    document.addEventListener('pointerdown', onPress, true);
    return () => document.removeEventListener('pointerdown', onPress, true);
  }, [open]);
  const close = () => {
    setOpen(false);
    button.current?.focus({ preventScroll: true });
  };
  return (
    <div
      ref={host}
      className="jp-dtf-more"
      onKeyDown={event => {
        if (open && event.key === 'Escape') {
          event.stopPropagation();
          close();
        }
      }}
      onBlur={({ relatedTarget }) => {
        if (relatedTarget && !host.current?.contains(relatedTarget)) {
          setOpen(false);
        }
      }}
    >
      <button
        ref={button}
        type="button"
        className="jp-dtf-button"
        aria-label={trans.__('More controls')}
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        onClick={() => setOpen(!open)}
      >
        <ellipsesIcon.react tag="span" className="jp-dtf-icon" />
        <span className="jp-dtf-more-word">{trans.__('More')}</span>
      </button>
      {open && (
        <div
          ref={list}
          id={id}
          className="jp-dtf-more-list"
          role="group"
          aria-label={trans.__('More controls')}
          onClick={event => {
            // Close the list after a button was used; controls that set a value leave it open, so that the user can see
            // the effect and try another value.
            if ((event.target as Element).closest('button:enabled:not([aria-disabled="true"])')) {
              close();
            }
          }}
        >
          {children}
        </div>
      )}
    </div>
  );
}
