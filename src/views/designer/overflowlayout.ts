/** A control in a toolbar. */
export interface Fitted {
  readonly id: string;
  /** Its width. */
  readonly px: number;
  /** If there is too little space, the controls with the lowest number are moved out first. `Infinity`: never. */
  readonly stays: number;
}

/**
 * The ids of the controls that fit into a toolbar of one line, `width` px wide, with `gap` px between two; the others
 * are moved behind a button of `more` px. A control that fits also fits into every wider bar, so that none disappears
 * as the bar is widened.
 */
export function fitting(
  controls: readonly Fitted[],
  width: number,
  { gap, more }: { gap: number; more: number }
): ReadonlySet<string> {
  const out = new Set(controls.map(({ id }) => id));
  let taken = controls.reduce((sum, { px }) => sum + px + gap, -gap);
  // Of two controls with the same number, the later one leaves first.
  const leaving = controls.filter(({ stays }) => stays !== Infinity).reverse();
  leaving.sort((a, b) => a.stays - b.stays);
  for (const { id, px } of leaving) {
    const button = out.size < controls.length ? more + gap : 0;
    if (taken + button <= width) {
      break;
    }
    out.delete(id);
    taken -= px + gap;
  }
  return out;
}
