import { z } from 'zod';

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
export interface TooLong {
  readonly path: readonly (string | number)[];
  readonly count: number;
  readonly most: number;
}

const known = new WeakMap<z.ZodType, { readonly limits: Limits | undefined }>();

/**
 * Returns the first list or map in the value with more entries than the JSON schema allows (`maxItems`,
 * `maxProperties`). The zod schema itself checks every entry before it counts them.
 */
export function tooLongIn(schema: z.ZodType, value: unknown): TooLong | undefined {
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
