/** A control of a bar. */
export interface Fitted {
  readonly id: string;
  /** How wide it is. */
  readonly px: number;
  /** Where there is too little room, those with the lowest number leave first. `Infinity`: it never leaves. */
  readonly stays: number;
}

/**
 * The controls that stand in a bar of one line, `width` px wide, with `gap` px between two; the others are behind a
 * button of `more` px. What is out in a bar is out in every wider one too: nothing comes and goes as a bar is widened.
 */
export function fitting(
  controls: readonly Fitted[],
  width: number,
  { gap, more }: { gap: number; more: number }
): ReadonlySet<string> {
  const out = new Set(controls.map(({ id }) => id));
  let taken = controls.reduce((sum, { px }) => sum + px + gap, -gap);
  // Of two alike, the one that stands later leaves first.
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
