/** Writes JSON byte for byte as `jupyter_dtf/schema/text.py` does; the rules are explained there. */

/**
 * A value as JSON text with a trailing newline. `written`: parts of the value whose text is already known, with its
 * indentation.
 */
export function writeJson(value: unknown, written: ReadonlyMap<unknown, string> = new Map()): string {
  return `${lines(value, '', written)}\n`;
}

function lines(value: unknown, indent: string, written: ReadonlyMap<unknown, string>): string {
  const known = written.get(value);
  if (known !== undefined) {
    return known;
  }
  const inner = `${indent}  `;
  if (isList(value) && value.some(item => item !== null && typeof item === 'object')) {
    return `[\n${value.map(item => inner + line(item)).join(',\n')}\n${indent}]`;
  }
  const members = isRecord(value) ? membersOf(value) : [];
  if (members.length > 0) {
    const texts = members.map(([key, item]) => `${inner}${JSON.stringify(key)}: ${lines(item, inner, written)}`);
    return `{\n${texts.join(',\n')}\n${indent}}`;
  }
  return line(value);
}

function line(value: unknown): string {
  if (isList(value)) {
    return `[${value.map(line).join(', ')}]`;
  }
  if (isRecord(value)) {
    const members = membersOf(value).map(([key, item]) => `${JSON.stringify(key)}: ${line(item)}`);
    return `{${members.join(', ')}}`;
  }
  return JSON.stringify(value);
}

function membersOf(value: Record<string, unknown>): [string, unknown][] {
  return Object.entries(value).filter(([, item]) => item !== undefined);
}

function isList(value: unknown): value is unknown[] {
  return Array.isArray(value);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !isList(value);
}
