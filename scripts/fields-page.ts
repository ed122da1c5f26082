import { z } from 'zod';
import { fieldAliases } from '../src/http/aliases.ts';
import { containerRequestSchema } from '../src/http/api/container/container-schema.ts';
import { clientFields } from '../src/http/api/container/field-check.ts';

interface Shape {
  readonly description?: string;
  readonly items?: Shape;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly anyOf?: readonly Shape[];
}

type Row = readonly [field: string, handling: string, about: string];

// The schema contains it, so that it is refused with its own message.
const refused: readonly string[] = ['spackFile'];

/** Returns the page about the treatment of each field that clients send. */
export function fieldsPage(): string {
  const schema = z.toJSONSchema(containerRequestSchema, { io: 'input', unrepresentable: 'any' });
  const own = [...rowsOf(schema as Shape, '')];
  const aliases = Object.entries(fieldAliases).map(
    ([name, meant]): Row => [name, 'honoured', `The same as \`${meant}\``],
  );
  const others = clientFields.map(({ path, handling, about }): Row => [path, handling, about]);
  const rows = [...own, ...aliases, ...others].sort(([one], [other]) => (one < other ? -1 : 1));
  return `# Fields of a container request

What becomes of each field that clients of this API send, in the body of \`POST /v1alpha2/container\`. No field with a
meaning is dropped without a word:

- **honoured**: the server acts on it.
- **refused**: 400 with the reason. The image would be another one, or would not have been checked as asked.
- **warning**: the field is ignored, and \`warnings\` in the answer says so.
- **no effect**: the field means nothing to a server.

A field that is not listed is ignored with a warning, which names the field that was most likely meant. \`null\` is the
same as no field; \`false\` and empty values never lead to a refusal.

This page is made from the schema by \`npm run generate\`.

| field | handling | meaning |
|---|---|---|
${rows.map(([field, handling, about]) => `| \`${field}\` | ${handling} | ${about.replaceAll('|', '\\\\|')} |`).join('\n')}
`;
}

function* rowsOf(shape: Shape, path: string): Generator<Row> {
  const { properties, items, anyOf = [] } = shape;
  for (const one of anyOf) yield* rowsOf(one, path);
  if (items) yield* rowsOf(items, `${path}[]`);
  for (const [name, inner] of Object.entries(properties ?? {})) {
    const field = path === '' ? name : `${path}.${name}`;
    yield [field, refused.includes(field) ? 'refused' : 'honoured', descriptionOf(inner)];
    yield* rowsOf(inner, field);
  }
}

function descriptionOf({ description, anyOf = [] }: Shape): string {
  return description ?? anyOf.map(descriptionOf).find(text => text !== '') ?? '';
}
