/**
 * Readers of plain JSON values: each returns the value that it was given, validated and complete, or throws a
 * ReadError. Pure.
 */

/** A path into a JSON value: keys and indices from the root. */
export type JsonPath = readonly (string | number)[];

export class ReadError extends Error {
  constructor(
    message: string,
    readonly path: JsonPath
  ) {
    super(message);
    this.name = 'ReadError';
  }
}

export type Reader<T> = (value: unknown, path: JsonPath) => T;

export const text: Reader<string> = (value, path) =>
  typeof value === 'string' ? value : refuse('a string', value, path);

export const number: Reader<number> = (value, path) =>
  typeof value === 'number' ? value : refuse('a number', value, path);

export const whole: Reader<number> = (value, path) =>
  Number.isInteger(value) ? (value as number) : refuse('a whole number', value, path);

export const flag: Reader<boolean> = (value, path) =>
  typeof value === 'boolean' ? value : refuse('true or false', value, path);

export const anything: Reader<unknown> = value => value;

export function nullable<T>(reader: Reader<T>): Reader<T | null> {
  return (value, path) => (value === null ? null : reader(value, path));
}

export function array<T>(reader: Reader<T>): Reader<T[]> {
  return (value, path) =>
    Array.isArray(value) ? value.map((item, index) => reader(item, [...path, index])) : refuse('an array', value, path);
}

/** An object with arbitrary keys. */
export function record<T>(reader: Reader<T>): Reader<Record<string, T>> {
  return (value, path) =>
    Object.fromEntries(entries(value, path).map(([key, item]) => [key, reader(item, [...path, key])]));
}

/** An object with these keys. A missing key takes its value from `defaults`; unknown keys are rejected. */
export function struct<T extends object>(
  readers: { readonly [K in keyof T]-?: Reader<T[K]> },
  defaults: object = {}
): Reader<T> {
  const known = Object.entries<Reader<unknown>>(readers);
  return (value, path) => {
    const given = new Map(entries(value, path));
    const result: Record<string, unknown> = {};
    for (const [key, reader] of known) {
      if (given.has(key)) {
        result[key] = reader(given.get(key), [...path, key]);
      } else if (Object.hasOwn(defaults, key)) {
        result[key] = structuredClone<unknown>((defaults as Record<string, unknown>)[key]);
      } else {
        throw new ReadError(`The key ${JSON.stringify(key)} is missing`, path);
      }
    }
    for (const key of given.keys()) {
      if (!Object.hasOwn(readers, key)) {
        throw new ReadError(`There is no key ${JSON.stringify(key)} here. Known: ${Object.keys(readers).join(', ')}`, [
          ...path,
          key
        ]);
      }
    }
    return result as T;
  };
}

function entries(value: unknown, path: JsonPath): [string, unknown][] {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.entries(value)
    : refuse('an object', value, path);
}

function refuse(rule: string, value: unknown, path: JsonPath): never {
  const where = path.length > 0 ? `\`${path.join('.')}\` must be ${rule}` : `The file must be ${rule}`;
  const received = JSON.stringify(value) as string | undefined;
  throw new ReadError(`${where}, got ${(received ?? 'nothing').slice(0, 200)}`, path);
}
