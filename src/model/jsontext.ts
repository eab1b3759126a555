/** JSON in the form that `jupyter_dtf/schema/text.py` writes, to the byte: see there. */

/** The text of a value, with a newline at its end. `written`: parts of it whose text is known, indented as they stand. */
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
