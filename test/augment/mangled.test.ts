import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { augment } from '../../src/images/augment/augment.ts';
import {
  asObject,
  type JsonObject,
  parseJson,
  parseLossless,
  writeJson,
} from '../../src/oci/json.ts';
import { documentOf } from '../../src/oci/manifest.ts';
import { OciSyntaxError } from '../../src/oci/syntax-error.ts';
import { jsonObjects } from '../oci/arbitraries.ts';
import { changes, images, indexes } from './arbitraries.ts';

const values = fc
  .oneof(
    fc.constantFrom('null', '[]', '{}', '""', '0', '-1', '1.10', '1e400', 'true', '[null]', '[[]]'),
    jsonObjects,
  )
  .map(text => parseLossless(Buffer.from(`{"value":${text}}`), 'manifest').value);

/** Returns the object with the value at another place; the numbers specify the path. */
function mangled(
  object: JsonObject,
  [turn = 0, ...way]: readonly number[],
  value: unknown,
): JsonObject {
  const names = Object.keys(object);
  const name = names[turn % Math.max(1, names.length)] ?? 'new';
  const list = Array.isArray(object[name]) ? (object[name] as unknown[]) : undefined;
  const inside = asObject(object[name]) ?? asObject(list?.[0]);
  if (way.length === 0 || !inside) return { ...object, [name]: value };
  const deeper = mangled(inside, way, value);
  return { ...object, [name]: list ? [deeper, ...list.slice(1)] : deeper };
}

test('documents with an error in any place are changed, left unchanged, or refused with a sentence', () => {
  let changed = 0;
  let refused = 0;
  fc.assert(
    fc.property(
      fc.oneof(images, indexes),
      changes,
      fc.nat(10),
      fc.array(fc.nat(7), { minLength: 1, maxLength: 3 }),
      values,
      ({ root, documents }, change, which, way, value) => {
        const all = [...documents.values()];
        const victim = all[which % all.length] ?? root;
        const body = mangled(parseLossless(victim.bytes, 'manifest'), way, value);
        // Stored under the original digest, because the documents above refer to it.
        const broken = { ...documentOf(writeJson(body), victim.mediaType), digest: victim.digest };
        const given = new Map([...documents, [victim.digest, broken]]);
        try {
          const image = augment(given.get(root.digest) ?? root, given, change);
          for (const made of image.generated.values()) parseJson(made.bytes, 'manifest');
          changed += image.generated.size > 0 ? 1 : 0;
        } catch (error) {
          assert.ok(error instanceof OciSyntaxError, `${error}`);
          refused += 1;
        }
      },
    ),
    { numRuns: 1000 },
  );
  assert.ok(changed > 50 && refused > 50, `${changed} changed, ${refused} refused`);
});
