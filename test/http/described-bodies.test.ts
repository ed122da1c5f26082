/** What the OpenAPI document says of bodies and queries is what the server checks: for generated ones, at and beyond each limit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { Fault } from '../../src/foundation/fault.ts';
import { describeJsonApi, jsonApiRoutes } from '../../src/http/api/json-api.ts';
import { type JsonSchema, jsonSchema } from '../../src/http/route/json-schema.ts';
import { parseBody, parseQuery } from '../../src/http/route/parse-input.ts';
import { postJson } from '../faults/fault-world.ts';
import { startSluice } from '../world/sluice.ts';

const routes = jsonApiRoutes.flatMap(({ id, path, body }) =>
  body ? [{ id, path, schema: body.schema, described: jsonSchema(body.schema) }] : [],
);
const document = describeJsonApi('test');
const ajv = new Ajv2020({ strict: false, validateFormats: false });

/** Returns values that a schema accepts, and values that are just outside of it. */
function valuesOf(schema: JsonSchema): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 1, arbitrary: fc.constantFrom('', null, {}, [], true, 7, 'text') },
    { weight: 12, arbitrary: ownValuesOf(schema) },
  );
}

function ownValuesOf(schema: JsonSchema): fc.Arbitrary<unknown> {
  const anyOf = schema.anyOf as readonly JsonSchema[] | undefined;
  if (anyOf) return fc.oneof(...anyOf.map(ownValuesOf));
  if ('const' in schema) return fc.constant(schema.const);
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum, 'other');
  const types = [schema.type].flat() as readonly string[];
  return fc.oneof(...types.map(type => ofType(type, schema)));
}

function ofType(type: string, schema: JsonSchema): fc.Arbitrary<unknown> {
  const { items, properties, additionalProperties } = schema;
  switch (type) {
    case 'string':
      return textsOf(schema);
    case 'integer':
    case 'number':
      return fc.constantFrom(0, 1, 22, 23, -1, 1.5, 2 ** 53 - 1, 2 ** 53, 1e300);
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return listsOf(items as JsonSchema, Number(schema.maxItems ?? 3));
    default:
      return properties
        ? objectsOf(properties)
        : mapsOf(additionalProperties as JsonSchema, Number(schema.maxProperties ?? 3));
  }
}

function textsOf({ maxLength = 20 }: JsonSchema): fc.Arbitrary<string> {
  const most = Number(maxLength);
  const usual = ['', ' ', 'text', '\0', 'a\nb', '7', '007', '+7', '9'.repeat(15), '9'.repeat(16)];
  return fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(...usual) },
    { weight: 1, arbitrary: fc.constantFrom('x'.repeat(most), 'x'.repeat(most + 1)) },
  );
}

function listsOf(items: JsonSchema, most: number): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 9, arbitrary: fc.array(valuesOf(items), { maxLength: 2 }) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(most, most + 1).map(length => Array(length).fill('x')),
    },
  );
}

function objectsOf(properties: Readonly<Record<string, JsonSchema>>): fc.Arbitrary<unknown> {
  const members = Object.entries(properties).map(([name, one]) => [name, valuesOf(one)] as const);
  // Few members at once: one wrong member decides about the whole body.
  return fc
    .subarray(members, { maxLength: Math.min(3, members.length) })
    .chain(chosen =>
      fc.record(Object.fromEntries(chosen) as Record<string, fc.Arbitrary<unknown>>),
    );
}

function mapsOf(values: JsonSchema, most: number): fc.Arbitrary<unknown> {
  const full = (size: number) =>
    Object.fromEntries(Array.from({ length: size }, (_, at) => [`k${at}`, 'x']));
  return fc.oneof(
    { weight: 9, arbitrary: fc.dictionary(fc.constantFrom('A', 'b/c:1'), valuesOf(values)) },
    { weight: 1, arbitrary: fc.constantFrom(most, most + 1).map(full) },
  );
}

for (const { id, schema, described } of routes) {
  test(`the body of ${id} is accepted if the document accepts it, and only then`, () => {
    const isDescribed = ajv.compile(described);
    let [taken, refused] = [0, 0];
    fc.assert(
      fc.property(ownValuesOf(described), body => {
        let fault: string | undefined;
        try {
          parseBody(schema, body);
          taken += 1;
        } catch (error) {
          assert.ok(error instanceof Fault && error.status === 400, String(error));
          fault = error.message;
          refused += 1;
        }
        const says = isDescribed(body) ? 'accepts' : ajv.errorsText(isDescribed.errors);
        assert.equal(isDescribed(body), fault === undefined, `${says}; the server: ${fault}`);
      }),
      { numRuns: 3000 },
    );
    assert.ok(taken > 50 && refused > 50, `${taken} accepted, ${refused} refused`);
  });
}

// A day, a time, a repository and a platform, each right for some parameter.
const usualTexts = fc.constantFrom(
  '2026-01-31',
  '2026-01-31T12:00:00Z',
  'team/tool',
  'linux/amd64',
);

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema: JsonSchema;
}

for (const { id, method, path, query } of jsonApiRoutes) {
  if (!query) continue;
  test(`the query of ${id} is accepted if the document accepts it, and only then`, () => {
    const operation = document.paths[path]?.[method] as unknown as {
      parameters: readonly Parameter[];
    };
    const parameters = operation.parameters.filter(one => one.in === 'query');
    const properties = Object.fromEntries(parameters.map(({ name, schema }) => [name, schema]));
    const required = parameters.filter(one => one.required).map(({ name }) => name);
    const isDescribed = ajv.compile({ type: 'object', properties, required });
    const values = Object.entries(properties).map(([name, one]) => [
      name,
      one.type === 'string' ? fc.oneof(usualTexts, ownValuesOf(one)) : ownValuesOf(one),
    ]);
    const queries = fc.record(Object.fromEntries(values) as Record<string, fc.Arbitrary<unknown>>, {
      requiredKeys: [],
    });
    fc.assert(
      fc.property(queries, given => {
        const texts = Object.entries(given).map(([name, value]) => [name, String(value)]);
        let fault: string | undefined;
        try {
          // The server ignores a parameter that it does not know.
          parseQuery({ query }, { ...Object.fromEntries(texts), unknown: 'x' });
        } catch (error) {
          assert.ok(error instanceof Fault && error.status === 400, String(error));
          fault = error.message;
        }
        const says = isDescribed(given) ? 'accepts' : ajv.errorsText(isDescribed.errors);
        assert.equal(isDescribed(given), fault === undefined, `${says}; the server: ${fault}`);
      }),
      { numRuns: 500 },
    );
  });
}

test('a server refuses what the document refuses', async () => {
  await using sluice = await startSluice();
  for (const { path, described } of routes) {
    const isDescribed = ajv.compile(described);
    const bodies = fc.sample(ownValuesOf(described), { numRuns: 150, seed: 1 });
    const wrong = bodies.filter(body => !isDescribed(body)).slice(0, 15);
    assert.ok(wrong.length > 5, path);
    for (const body of wrong) {
      const { status } = await postJson(sluice.url + path, body as object);
      assert.equal(status, 400, `${path} ${JSON.stringify(body).slice(0, 200)}`);
    }
  }
});
