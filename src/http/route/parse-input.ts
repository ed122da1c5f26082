import { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import { withoutAliases } from '../aliases.ts';
import { type Declaration, namesIn } from './declaration.ts';

// Characters shown of a name that a client chose.
const shownName = 80;
// Characters shown of a text in a path.
const shownText = 40;

/** Returns the body as the schema types it. Throws a {@link Fault} (400) that names the invalid field and its fault. */
export function parseBody<S extends z.ZodType>(schema: S, body: unknown): z.output<S> {
  const given = withoutAliases(body);
  const tooLong = tooLongIn(schema, given);
  if (tooLong) {
    const { path, count, most } = tooLong;
    throw malformed(path, `has ${count} entries, at most ${most} are allowed`);
  }
  return parse(schema, given);
}

/** Returns the query parameters as their schema types them. Throws a {@link Fault} (400) for an invalid parameter. */
export function parseQuery(
  { query }: Pick<Declaration, 'query'>,
  given: Readonly<Record<string, string>>,
): unknown {
  return query ? parse(query, given) : {};
}

/** Returns the path parameters, each as its schema types it. Throws a {@link Fault} (400) for an invalid parameter. */
export function parseParams(
  { path, params = {} }: Pick<Declaration, 'path' | 'params'>,
  given: Readonly<Record<string, string>>,
): Record<string, unknown> {
  const entries = namesIn(path).map(name => {
    const text = given[name] ?? '';
    const result = params[name]?.safeParse(text);
    if (!result) return [name, text] as const;
    if (result.success) return [name, result.data] as const;
    const message = result.error.issues[0]?.message ?? 'is malformed';
    throw new Fault('bad-request', `'${text.slice(0, shownText)}' in the path ${message}`, {
      phase: 'request',
    });
  });
  return Object.fromEntries(entries);
}

function parse<S extends z.ZodType>(schema: S, given: unknown): z.output<S> {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw malformed(issue?.path ?? [], inWords(issue?.message));
}

function malformed(path: readonly PropertyKey[], what: string): Fault {
  const field = path
    .map(part => (typeof part === 'number' ? `[${part}]` : `.${String(part).slice(0, shownName)}`))
    .join('')
    .slice(1);
  const subject = field === '' ? 'The body' : `'${field}'`;
  const joint = /^(?:is|has|must) /.test(what) ? ' ' : ': ';
  return new Fault('bad-request', `${subject}${joint}${what}`, { phase: 'request' });
}

/** Returns a message of zod as the rest of a sentence on the field. */
function inWords(message = 'is malformed'): string {
  if (message.endsWith('received undefined')) return 'is required';
  return message.replace(/^Invalid (?:input|option): /, '');
}

/** The parts of a JSON schema that limit the lengths of lists and maps. */
interface Shape {
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly items?: Shape;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly anyOf?: readonly Shape[];
}

/** The few parts of a shape that contain a limit. */
interface Limits {
  readonly maxItems: number;
  readonly maxProperties: number;
  readonly items: Limits | undefined;
  readonly properties: readonly (readonly [name: string, limits: Limits])[];
  readonly anyOf: readonly Limits[];
}

/** A list or map that is too long. */
interface TooLong {
  readonly path: readonly (string | number)[];
  readonly count: number;
  readonly most: number;
}

const known = new WeakMap<z.ZodType, { readonly limits: Limits | undefined }>();

/**
 * Returns the first list or map in the value with more entries than the JSON schema allows (`maxItems`,
 * `maxProperties`). The zod schema itself checks every entry before it counts them.
 */
function tooLongIn(schema: z.ZodType, value: unknown): TooLong | undefined {
  let found = known.get(schema);
  if (!found) {
    const shape = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape;
    found = { limits: limitsOf(shape) };
    known.set(schema, found);
  }
  return found.limits && find(found.limits, value);
}

function limitsOf(shape: Shape): Limits | undefined {
  const { maxItems = Number.POSITIVE_INFINITY, maxProperties = Number.POSITIVE_INFINITY } = shape;
  const items = shape.items && limitsOf(shape.items);
  const anyOf = (shape.anyOf ?? []).flatMap(one => limitsOf(one) ?? []);
  const properties = Object.entries(shape.properties ?? {}).flatMap(([name, one]) => {
    const limits = limitsOf(one);
    return limits ? [[name, limits] as const] : [];
  });
  const hasNone =
    maxItems === Number.POSITIVE_INFINITY &&
    maxProperties === Number.POSITIVE_INFINITY &&
    !items &&
    anyOf.length + properties.length === 0;
  return hasNone ? undefined : { maxItems, maxProperties, items, properties, anyOf };
}

// Runs for every request, so it builds a path only if a list or map is too long.
function find(limits: Limits, value: unknown): TooLong | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  for (const one of limits.anyOf) {
    const found = find(one, value);
    if (found) return found;
  }
  if (Array.isArray(value)) return findInList(limits, value);
  if (limits.maxProperties !== Number.POSITIVE_INFINITY) {
    const count = Object.keys(value).length;
    if (count > limits.maxProperties) return { path: [], count, most: limits.maxProperties };
  }
  for (const [name, inner] of limits.properties) {
    const found = find(inner, (value as Record<string, unknown>)[name]);
    if (found) return { ...found, path: [name, ...found.path] };
  }
  return undefined;
}

function findInList({ maxItems, items }: Limits, list: readonly unknown[]): TooLong | undefined {
  const count = list.length;
  if (count > maxItems) return { path: [], count, most: maxItems };
  if (!items) return undefined;
  for (let at = 0; at < count; at += 1) {
    const found = find(items, list[at]);
    if (found) return { ...found, path: [at, ...found.path] };
  }
  return undefined;
}
