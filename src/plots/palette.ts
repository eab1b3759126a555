/**
 * One colour per task, the same wherever the task is shown.
 *
 * Okabe and Ito, "Color Universal Design" (2008): told apart with every common kind of colour blindness. Their black is
 * replaced by a grey that shows on light and dark grounds, and yellow, the palest, comes last.
 */
export const PALETTE = [
  '#0072b2',
  '#e69f00',
  '#009e73',
  '#cc79a7',
  '#56b4e9',
  '#d55e00',
  '#999999',
  '#f0e442'
] as const;

/** The colour of each task, by its place in the run's list of tasks. */
export function taskColours(tasks: readonly string[]): Map<string, string> {
  return new Map(tasks.map((task, index) => [task, PALETTE[index % PALETTE.length]!]));
}
