import { z } from 'zod';

/** What of a JSON schema says how long lists and maps may be. */
interface Shape {
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly items?: Shape;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly anyOf?: readonly Shape[];
}

/** A list or map that is too long. */
export interface TooLong {
  readonly path: readonly (string | number)[];
  readonly count: number;
  readonly most: number;
}

const shapes = new WeakMap<z.ZodType, Shape>();

/**
 * The first list or map in the value that has more entries than the schema allows, as its description states
 * it (`maxItems`, `maxProperties`). The schema itself looks at every entry before it counts them.
 */
export function tooLongIn(schema: z.ZodType, value: unknown): TooLong | undefined {
  const shape = shapes.get(schema) ?? shapeOf(schema);
  shapes.set(schema, shape);
  return find(shape, value, []);
}

function shapeOf(schema: z.ZodType): Shape {
  const whole = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape;
  return limitsOf(whole) ?? {};
}

/** The parts of a shape that have a limit in them, which are few; undefined for none. */
function limitsOf(shape: Shape): Shape | undefined {
  const { maxItems, maxProperties } = shape;
  const anyOf = (shape.anyOf ?? []).flatMap(one => limitsOf(one) ?? []);
  const items = shape.items && limitsOf(shape.items);
  const properties = Object.fromEntries(
    Object.entries(shape.properties ?? {}).flatMap(([name, one]) => {
      const limits = limitsOf(one);
      return limits ? [[name, limits]] : [];
    }),
  );
  const own = {
    ...(maxItems !== undefined && { maxItems }),
    ...(maxProperties !== undefined && { maxProperties }),
    ...(anyOf.length > 0 && { anyOf }),
    ...(items && { items }),
    ...(Object.keys(properties).length > 0 && { properties }),
  };
  return Object.keys(own).length > 0 ? own : undefined;
}

function find(shape: Shape, value: unknown, path: TooLong['path']): TooLong | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  for (const one of shape.anyOf ?? []) {
    const found = find(one, value, path);
    if (found) return found;
  }
  if (Array.isArray(value)) {
    const { maxItems = Number.POSITIVE_INFINITY, items } = shape;
    if (value.length > maxItems) return { path, count: value.length, most: maxItems };
    if (!items) return undefined;
    return firstOf(value.entries(), (item, at) => find(items, item, [...path, at]));
  }
  const { maxProperties, properties = {} } = shape;
  if (maxProperties !== undefined) {
    const count = Object.keys(value).length;
    if (count > maxProperties) return { path, count, most: maxProperties };
  }
  return firstOf(Object.entries(properties), (inner, name) =>
    find(inner, (value as Record<string, unknown>)[name], [...path, name]),
  );
}

function firstOf<K, V>(
  entries: Iterable<readonly [K, V]>,
  look: (value: V, key: K) => TooLong | undefined,
): TooLong | undefined {
  for (const [key, value] of entries) {
    const found = look(value, key);
    if (found) return found;
  }
  return undefined;
}
