/**
 * One color per task, the same wherever the task is shown, and in every theme.
 *
 * Based on the palette of Okabe and Ito, "Color Universal Design" (2008), whose colors can be told apart with every
 * common kind of color blindness. Their colors are made for paper; these have a contrast of at least 3:1 both on
 * white and on the background of the dark theme.
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

/** The color of each task, by its index in the run's list of tasks. */
export function taskColours(tasks: readonly string[]): Map<string, string> {
  return new Map(tasks.map((task, index) => [task, PALETTE[index % PALETTE.length]!]));
}
