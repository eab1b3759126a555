import type { TranslationBundle } from '@jupyterlab/translation';
import { ellipsesIcon } from '@jupyterlab/ui-components';
import React from 'react';

import { useWidth } from '../hooks';
import { Fitted, fitting } from './overflowlayout';
import { useFollowingFocus } from './focusrestoration';

/** Between two controls, px; the style sheet has the same. */
const GAP = 8;
const MORE = 'more';

export interface BarControl extends Omit<Fitted, 'px'> {
  /** It stands at the right, as do all after it. */
  readonly atEnd?: boolean;
  readonly element: React.ReactNode;
}

/** A toolbar that is one line, however narrow it is: what does not fit is in a list that opens from its last button. */
export function OverflowBar(props: {
  label: string;
  controls: readonly BarControl[];
  trans: TranslationBundle;
}): React.ReactElement {
  const { label, controls, trans } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const width = useWidth(host);
  const sizes = useSizes(host);
  const focus = useFollowingFocus(); // of a control that has just gone into the list, or come out of it

  // What was never out is out once, to be measured; that is before anything is painted.
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

/** How wide the controls in the bar are, by their ids, and how wide the others were when they were last in it. */
function useSizes(host: React.RefObject<HTMLElement>): ReadonlyMap<string, number> {
  const sizes = React.useRef(new Map<string, number>()).current;
  const [, again] = React.useReducer((count: number) => count + 1, 0);
  // After each rendering: other controls may be in the bar now, and what is in them may have changed.
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
    // A press beside it closes it, also one on what takes no focus.
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
            // A button has done its work; what chooses a value stays, so that its effect is seen and another tried.
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
