/**
 * One colour per task, the same wherever the task is shown, and in every theme.
 *
 * After Okabe and Ito, "Color Universal Design" (2008), which are told apart with every common kind of colour blindness. Theirs
 * are made for paper: here each has a contrast of at least 3:1 both on white and on the ground of the dark theme.
 */
export const PALETTE = [
  '#0072b2',
  '#c47d00',
  '#008a64',
  '#cc74a3',
  '#4d93d9',
  '#c6442f',
  '#8a8a8a',
  '#7d54c8'
] as const;

/** The colour of each task, by its place in the run's list of tasks. */
export function taskColours(tasks: readonly string[]): Map<string, string> {
  return new Map(tasks.map((task, index) => [task, PALETTE[index % PALETTE.length]!]));
}
