/** The forms of every message, keyed by message: one form, or singular and plural. */
export function messages(): Map<string, string[]>;

export interface Translation {
  language: string;
  file: string;
  content: Record<string, string[]> & { '': { domain: string; language: string; plural_forms: string } };
}

export function translations(): Translation[];

export function differences(
  wanted: Map<string, string[]>,
  content: Record<string, unknown>
): { missing: string[]; unused: string[] };
