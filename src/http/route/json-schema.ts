import { z } from 'zod';

/** A JSON schema, as far as the description of an API looks into it. */
export interface JsonSchema {
  readonly title?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly [member: string]: unknown;
}

/** Marks the schema of a field that may be an empty text in place of a value, in its `meta`. */
export const mayBeEmpty = 'mayBeEmpty';

/** Returns the JSON schema of the input that a schema accepts. */
export function jsonSchema(schema: z.ZodType): JsonSchema {
  const { $schema, ...rest } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return withEmptyTexts(rest) as JsonSchema;
}

/** Replaces each {@link mayBeEmpty} with what it means. */
function withEmptyTexts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withEmptyTexts);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([name, one]) => [name, withEmptyTexts(one)] as const);
  const { [mayBeEmpty]: isMarked, ...schema } = Object.fromEntries(entries) as JsonSchema;
  if (isMarked !== true) return schema;
  const { description, title, default: _, anyOf = [alternative(schema)], ...others } = schema;
  const choices = anyOf as readonly JsonSchema[];
  if (choices.some(takesEmptyText)) return schema;
  const about = {
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
  };
  return {
    ...about,
    ...(schema.anyOf === undefined ? {} : others),
    anyOf: [...choices, { const: '' }],
  };
}

/** Returns a schema without what is said about it. */
function alternative({ description: _, title: __, ...schema }: JsonSchema): JsonSchema {
  return schema;
}

function takesEmptyText({ type, enum: values, pattern, minLength, anyOf }: JsonSchema): boolean {
  if (Array.isArray(anyOf)) return anyOf.some(takesEmptyText);
  const isText = type === 'string' || (Array.isArray(type) && type.includes('string'));
  return isText && values === undefined && pattern === undefined && minLength === undefined;
}
