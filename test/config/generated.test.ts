import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readVersion } from '../../src/foundation/version.ts';
import { describeJsonApi } from '../../src/http/api/json-api.ts';
import { settings } from '../../src/server/config/settings.ts';

const docs = join(import.meta.dirname, '../../docs');

test('the configuration page has every variable, and each has a meaning', () => {
  const page = readFileSync(join(docs, 'configuration.md'), 'utf8');
  for (const { path, variable, description } of settings) {
    assert.notEqual(description, '', path.join('.'));
    if (variable !== undefined) assert.ok(page.includes(`\`${variable}\``), variable);
  }
});

test('the kept API description is the one that is served, and its references lead somewhere', () => {
  const api = describeJsonApi(readVersion().version);
  assert.deepEqual(JSON.parse(readFileSync(join(docs, 'openapi.json'), 'utf8')), api);
  const { schemas } = api.components as { schemas: Record<string, object> };
  const references = JSON.stringify(api).matchAll(/"#\/components\/schemas\/(\w+)"/g);
  const names = new Set([...references].map(([, name = '']) => name));
  assert.ok(names.size > 5);
  assert.doesNotMatch(JSON.stringify(api), /\$defs/);
  for (const name of names) assert.ok(schemas[name], name);
});
